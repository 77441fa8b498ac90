# A hardened program (-z now) that calls what its older library does not define: it does not start.
with 'int fresh(void) { return 0; }' library new/libx.so.1 libx.so.1
library old/libx.so.1 libx.so.1
with 'int fresh(void); int run(void) { return 0 ? fresh() : 0; } void *keep = (void *)fresh;' program p new/libx.so.1 -Wl,-z,now '-Wl,-rpath,$ORIGIN/old'
start ./p
