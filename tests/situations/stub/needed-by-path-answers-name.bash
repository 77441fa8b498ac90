# One library needs the stub by path, the next needs libcuda.so.1 and has the driver link: the stub's soname answers first.
host
library lib/stubs/libcuda.so "$PWD/lib/stubs/libcuda.so"
library libold.so.1 libold.so.1 lib/stubs/libcuda.so
stub lib/stubs/libcuda.so
cuda_library libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so -Wl,-rpath,/run/opengl-driver/lib
caller p libold.so.1 libgpu.so.1 -Wl,-rpath,'$ORIGIN'
start ./p
