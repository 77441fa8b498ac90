# One program names both runtimes itself.
host
library lib/libcudart.so.12 libcudart.so.12
library lib/libcudart.so.13 libcudart.so.13
program p lib/libcudart.so.12 lib/libcudart.so.13 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
because='libcudart.so.12 libcudart.so.13' start ./p
