# A library without a soname was linked by its path: its path is what is needed, and no run path will find another.
host
with 'int cuInit(unsigned f) { return 34; }' library "$PWD/stubs/libcuda.so" ''
cuda_program p "$PWD/stubs/libcuda.so" -Wl,-rpath,/run/opengl-driver/lib
start ./p
