# The directory with the host's driver also holds a libfoo, which is loaded in place of the program's own.
driver opt/host/libcuda.so.1 0
library opt/host/libfoo.so.1 libfoo.so.1 -lm
library lib/libfoo.so.1 libfoo.so.1
cuda_program p.bin opt/host/libcuda.so.1 lib/libfoo.so.1 '-Wl,-rpath,$ORIGIN/lib'
wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/opt/host"
because=libfoo.so.1
start bin/p
