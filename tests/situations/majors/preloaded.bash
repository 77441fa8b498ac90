# The second runtime comes by LD_PRELOAD.
host
library lib/libcudart.so.12 libcudart.so.12
library pre/libcudart.so.13 libcudart.so.13
wrapper bin/p "$PWD/p.bin" --set LD_PRELOAD "$PWD/pre/libcudart.so.13"
program p.bin lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
because='libcudart.so.12 libcudart.so.13' start bin/p
