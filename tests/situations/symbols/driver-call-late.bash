# The program needs a library that calls cuMemCreate and needs no libcuda.so.1; it is bound late and called.
host
with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1
with 'int g(void); int run(void) { return g(); }' program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
