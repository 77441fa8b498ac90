# The program itself calls what its library, exchanged for an older one, does not define; bound late and called.
with 'int fresh(void) { return 0; }' library new/libx.so.1 libx.so.1
library old/libx.so.1 libx.so.1
with 'int fresh(void); int run(void) { return fresh(); }' program p new/libx.so.1 '-Wl,-rpath,$ORIGIN/old'
start ./p
