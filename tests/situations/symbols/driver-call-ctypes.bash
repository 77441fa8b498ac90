# ctypes opens a library that calls the driver and does not need it; RTLD_GLOBAL does not help.
with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
with 'int cuMemCreate(void); int plugin(void) { return cuMemCreate(); }' library libg.so libg.so
python p "ctypes.CDLL(\"$PWD/libg.so\", ctypes.RTLD_GLOBAL)"
start ./p
