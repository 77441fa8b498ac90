# The other runtime lies in the same directory, and nobody needs or opens it.
host
library lib/libcudart.so.12 libcudart.so.12
library lib/libcudart.so.13 libcudart.so.13
program p lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
start ./p
