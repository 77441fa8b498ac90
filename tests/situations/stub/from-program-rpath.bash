# A library without a run path needs the driver; it inherits the program's DT_RPATH, where the stubs come first.
host
stub lib/stubs/libcuda.so.1
cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1
caller p lib/libgpu.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib:$ORIGIN/lib/stubs:/run/opengl-driver/lib'
start ./p
