# A weak function and weak data that nothing defines are zero.
with 'extern int absent __attribute__((weak)); int gone(void) __attribute__((weak)); int g(void) { return &absent ? gone() : 0; }' library lib/libg.so.1 libg.so.1 -Wl,-z,now
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
