# The plugin that would bring the second runtime cannot be opened: there is one in the process, and something is missing.
host
library plug/libcudart.so.12 libcudart.so.12
library plug/libcudart.so.13 libcudart.so.13
library gone/libgone.so.1 libgone.so.1
library plug/liba.so liba.so plug/libcudart.so.12 '-Wl,-rpath,$ORIGIN'
library plug/libb.so libb.so plug/libcudart.so.13 gone/libgone.so.1 '-Wl,-rpath,$ORIGIN'
rm -r gone
opener p liba.so libb.so -- '-Wl,-rpath,$ORIGIN/plug:/run/opengl-driver/lib'
start ./p
