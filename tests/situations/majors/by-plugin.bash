# The program brings CUDA 12's runtime, a plugin that it opens 13's.
host
library lib/libcudart.so.12 libcudart.so.12
library plug/libcudart.so.13 libcudart.so.13
library plug/libplug.so libplug.so plug/libcudart.so.13 '-Wl,-rpath,$ORIGIN'
opener p libplug.so -- lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:$ORIGIN/plug:/run/opengl-driver/lib'
because='libcudart.so.12 libcudart.so.13' start ./p
