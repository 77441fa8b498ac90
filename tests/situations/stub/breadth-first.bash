# Two libraries need libcuda.so.1, the first with the stubs, the second with the driver: who is needed first decides for both.
host
stub lib/stubs/libcuda.so.1
library lib/libcudart.so.12 libcudart.so.12 lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/stubs'
cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
caller p lib/libcudart.so.12 lib/libgpu.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
