# The driver link's libcuda.so.1 is an empty file: the loader does not go on to the stub, it stops.
mkdir -p /run/opengl-driver/lib && : >/run/opengl-driver/lib/libcuda.so.1
stub lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
start ./p
