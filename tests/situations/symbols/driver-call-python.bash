# The same as a module of Python's, which opens it with RTLD_NOW whatever its flags.
with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' extension ext.so -Wl,-rpath,/run/opengl-driver/lib
python p 'import ext'
start ./p
