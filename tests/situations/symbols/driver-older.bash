# The library does need libcuda.so.1, linked against a newer stub; the host's driver has no cuMemCreate.
host
with 'int cuMemCreate(void) { return 34; }' stub stubs/libcuda.so.1
with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1 stubs/libcuda.so.1 -Wl,-z,now,-rpath,/run/opengl-driver/lib
program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
start ./p
