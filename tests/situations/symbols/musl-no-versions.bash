# musl does not look at versions: a library that lacks the one that is needed does.
on musl versioned 'V1 { f_v; };' library versioned/libv.so.1 libv.so.1
on musl library plain/libv.so.1 libv.so.1
on musl with 'int f_v(void); int run(void) { return f_v(); }' program p versioned/libv.so.1 "-Wl,-rpath,$PWD/plain"
start ./p
