# The toolkit's stub directory holds libcuda.so without a number, and the program needs libcuda.so.1: the stub is not found.
host
stub lib/stubs/libcuda.so
cuda_program p lib/stubs/libcuda.so -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
start ./p
