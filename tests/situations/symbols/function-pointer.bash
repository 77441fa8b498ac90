# The address of a function in a table is data too: the start ends.
with 'int absent(void); int (*table[])(void) = {absent};' library lib/libg.so.1 libg.so.1
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
