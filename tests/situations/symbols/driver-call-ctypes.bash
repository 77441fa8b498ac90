# ctypes opens a library that calls the driver and does not need it; RTLD_GLOBAL does not help.
host
with 'int cuMemCreate(void); int plugin(void) { return cuMemCreate(); }' library libg.so libg.so
python p "ctypes.CDLL(\"$PWD/libg.so\", ctypes.RTLD_GLOBAL)"
start ./p
