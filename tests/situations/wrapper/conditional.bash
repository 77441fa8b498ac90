# The script sets the variable only where a directory exists, which it does.
host
stub stubs/libcuda.so.1
cuda_program p.bin stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
executable bin/p <<SH
#!/bin/bash
if [ -d $PWD/stubs ]; then
  export LD_LIBRARY_PATH=$PWD/stubs
fi
exec $PWD/p.bin "\$@"
SH
start bin/p
