# The wrapper sets LD_BIND_NOW=1: a function that nobody calls and nothing defines now ends the start.
with 'int absent(void); int g(void) { return absent(); }' library lib/libg.so.1 libg.so.1
program .p-wrapped lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
wrapper bin/p "$PWD/.p-wrapped" --set LD_BIND_NOW 1
start bin/p
