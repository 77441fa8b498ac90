# Data that nothing defines ends the start at once, whatever the binding.
with 'extern int absent; int g(void) { return absent; }' library lib/libg.so.1 libg.so.1
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
