# The same after RTLD_LOCAL: what the driver defines is not to be seen, and the library cannot be opened.
with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
with 'int cuMemCreate(void); int plugin(void) { return cuMemCreate(); }' library plug/libg.so libg.so
opener p libcuda.so.1 libg.so -- '-Wl,-rpath,/run/opengl-driver/lib:$ORIGIN/plug'
limit="the flags of dlopen are in code" start ./p
