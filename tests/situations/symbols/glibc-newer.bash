# A library that was built against a newer glibc than this machine has.
with 'int fresh(void) { return 0; }' versioned 'GLIBC_2.99 { fresh; };' library newer/libc.so.6 libc.so.6
with 'int fresh(void); int g(void) { return fresh(); }' library lib/libg.so.1 libg.so.1 newer/libc.so.6
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
