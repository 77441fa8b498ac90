# exec env LD_LIBRARY_PATH=… program
host
stub stubs/libcuda.so.1
cuda_program p.bin stubs/libcuda.so.1
rm -r stubs
executable bin/p <<SH
#!/bin/sh
exec env LD_LIBRARY_PATH=/run/opengl-driver/lib $PWD/p.bin "\$@"
SH
start bin/p
