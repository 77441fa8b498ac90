# The same, and nobody calls it: the program works.
host
with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
because=cuMemCreate start ./p
