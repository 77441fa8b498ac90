# The module needs libcuda.so.1, which defines the function: nothing is wrong, though Py* are defined by the interpreter alone.
with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' extension ext.so /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
python p 'import ext'
start ./p
