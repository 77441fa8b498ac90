# A library calls cuMemCreate at once and needs no libcuda.so.1; the preloaded driver defines it.
with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1 -Wl,-z,now
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
LD_PRELOAD=/run/opengl-driver/lib/libcuda.so.1 start ./p
