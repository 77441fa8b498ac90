# LD_BIND_NOW=1 makes a late error one of the start.
with 'int absent(void); int g(void) { return absent(); }' library lib/libg.so.1 libg.so.1
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
LD_BIND_NOW=1 start ./p
