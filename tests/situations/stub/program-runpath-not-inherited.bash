# The program's DT_RUNPATH has the driver link; the library that needs the driver has none, and gets it from nowhere.
host
stub lib/stubs/libcuda.so.1
cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1
caller p lib/libgpu.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib:/run/opengl-driver/lib'
start ./p
