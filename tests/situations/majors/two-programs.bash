# Two programs of one directory, one with CUDA 12 and one with 13, which are never in one process.
host
library lib/libcudart.so.12 libcudart.so.12
library lib/libcudart.so.13 libcudart.so.13
program p12 lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
program p13 lib/libcudart.so.13 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
start ./p12
