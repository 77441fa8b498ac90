# The driver link itself has a glibc-hwcaps directory, with a driver for x86-64-v3.
processor x86-64-v3
host
driver /run/opengl-driver/lib/glibc-hwcaps/x86-64-v3/libcuda.so.1 0
cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
start ./p
