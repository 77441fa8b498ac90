# The library was linked with -z now: the program does not start.
host
with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1 -Wl,-z,now
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
