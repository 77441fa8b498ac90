# The library has the function and hides it: for others it is not there.
with 'int offered(void) { return 0; }' library seen/libx.so.1 libx.so.1
with '__attribute__((visibility("hidden"))) int offered(void) { return 0; } int use(void) { return offered(); }' library lib/libx.so.1 libx.so.1
with 'int offered(void); int g(void) { return offered(); }' library lib/libg.so.1 libg.so.1 seen/libx.so.1 -Wl,-z,now
program p lib/libg.so.1 lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
