# The driver link holds the 32-bit driver only: a 64-bit program passes over it and takes the stub behind it.
on i386 host
stub lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
start ./p
