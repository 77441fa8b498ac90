# The program copies a variable of its library, and the older library has none.
with 'int fresh = 1;' library new/libx.so.1 libx.so.1
library old/libx.so.1 libx.so.1
with 'extern int fresh; int run(void) { return fresh; }' program p new/libx.so.1 '-Wl,-rpath,$ORIGIN/old' -fPIE
start ./p
