# The note was written while the driver link was not there, and names the stub; an ordinary glibc reads the run path only.
host
stub lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 "$(note libcuda.so.1 "=$PWD/lib/stubs/libcuda.so.1")" -Wl,-rpath,/run/opengl-driver/lib
start ./p
