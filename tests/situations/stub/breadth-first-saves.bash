# The library with the stubs is needed by a library, the one with the driver by the program: breadth first, the driver wins.
host
stub lib/stubs/libcuda.so.1
library lib/libinner.so.1 libinner.so.1 lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/stubs'
library lib/libouter.so.1 libouter.so.1 lib/libinner.so.1 -Wl,-rpath,'$ORIGIN'
cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
caller p lib/libouter.so.1 lib/libgpu.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
