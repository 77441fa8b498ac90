# The driver link's libcuda.so.1 is a link to a version that an upgrade removed: the loader goes on, to the stub.
mkdir -p /run/opengl-driver/lib && ln -s libcuda.so.535.54.03 /run/opengl-driver/lib/libcuda.so.1
stub lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
start ./p
