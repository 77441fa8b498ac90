# Two libraries of one program, built with CUDA 12 and 13: each brings its libcudart, whose functions have one name.
host
with 'int cudaMalloc(void) { return 12; }' library lib/libcudart.so.12 libcudart.so.12
with 'int cudaMalloc(void) { return 13; }' library lib/libcudart.so.13 libcudart.so.13
with 'int cudaMalloc(void); int use12(void) { return cudaMalloc() != 12; }' library lib/libuse12.so libuse12.so lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN'
with 'int cudaMalloc(void); int use13(void) { return cudaMalloc() != 13; }' library lib/libuse13.so libuse13.so lib/libcudart.so.13 '-Wl,-rpath,$ORIGIN'
with 'int use12(void), use13(void); int run(void) { return use12() + use13(); }' program p lib/libuse12.so lib/libuse13.so '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
because='libcudart.so.12 libcudart.so.13' start ./p
