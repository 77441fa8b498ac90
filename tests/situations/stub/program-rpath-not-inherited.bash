# The program's DT_RPATH begins with the stubs, but the library that needs the driver has a DT_RUNPATH: it inherits nothing.
host
stub lib/stubs/libcuda.so.1
cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib
caller p lib/libgpu.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib/stubs:$ORIGIN/lib'
start ./p
