# NixOS/nixpkgs 472447: an extension calls cuMemCreate, needs no libcuda.so.1, and is opened with RTLD_NOW.
host
with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library ext.so ext.so -Wl,-rpath,/run/opengl-driver/lib
opener p ./ext.so
start ./p
