# The library that defines the function is not needed by who calls it, but by another one of the same process.
with 'int offered(void) { return 0; }' library lib/liba.so.1 liba.so.1
library lib/libmiddle.so.1 libmiddle.so.1 lib/liba.so.1 '-Wl,-rpath,$ORIGIN'
with 'int offered(void); int g(void) { return offered(); }' library lib/libg.so.1 libg.so.1 -Wl,-z,now
program p lib/libg.so.1 lib/libmiddle.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
