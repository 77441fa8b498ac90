# LD_PRELOAD names the stub by its path: its soname answers for the driver in whatever comes later.
host
stub lib/stubs/libcuda.so
cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
LD_PRELOAD="$PWD/lib/stubs/libcuda.so" start ./p
