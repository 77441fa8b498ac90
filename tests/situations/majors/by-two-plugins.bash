# Neither the program nor either plugin alone has two; the process has.
host
library plug/libcudart.so.12 libcudart.so.12
library plug/libcudart.so.13 libcudart.so.13
library plug/liba.so liba.so plug/libcudart.so.12 '-Wl,-rpath,$ORIGIN'
library plug/libb.so libb.so plug/libcudart.so.13 '-Wl,-rpath,$ORIGIN'
opener p liba.so libb.so -- '-Wl,-rpath,$ORIGIN/plug:/run/opengl-driver/lib'
because='libcudart.so.12 libcudart.so.13' start ./p
