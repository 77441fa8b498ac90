# The library does not need libcuda.so.1, and works, because the driver was opened before with RTLD_GLOBAL.
with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
with 'int cuMemCreate(void); int plugin(void) { return cuMemCreate(); }' library plug/libg.so libg.so
opener p --global libcuda.so.1 libg.so -- '-Wl,-rpath,/run/opengl-driver/lib:$ORIGIN/plug'
start ./p
