/* An image (program, library or plugin) of the property test is a main part and any of the features. Each feature is a
   function that computes a number from what it tests; report.c is compiled with -DWITH_name for those that are there. */
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN int align(void), bss(void), ctor(void), cxx(void), ifunc(void), odd(void), relr(void), tls(void);
HIDDEN void report(const char *image);
