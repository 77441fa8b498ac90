# --unset LD_LIBRARY_PATH: the user's stub directory does not reach the program.
host
stub stubs/libcuda.so.1
cuda_program .p-wrapped stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
wrapper bin/p "$PWD/.p-wrapped" --unset LD_LIBRARY_PATH
LD_LIBRARY_PATH=$PWD/stubs start bin/p
