# The run path is in the right order, but this host has no driver link: what is left is the stub.
stub lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
start ./p
