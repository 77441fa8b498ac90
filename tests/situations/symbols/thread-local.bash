# A thread-local variable that nothing defines ends the start.
with 'extern __thread int absent; int g(void) { return absent; }' library lib/libg.so.1 libg.so.1
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
