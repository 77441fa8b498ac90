# CUDA 11 calls its runtime libcudart.so.11.0.
host
library lib/libcudart.so.11.0 libcudart.so.11.0
library lib/libcudart.so.12 libcudart.so.12
library lib/libold.so libold.so lib/libcudart.so.11.0 '-Wl,-rpath,$ORIGIN'
program p lib/libcudart.so.12 lib/libold.so '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
because='libcudart.so.11.0 libcudart.so.12' start ./p
