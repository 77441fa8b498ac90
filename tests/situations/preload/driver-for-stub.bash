# LD_PRELOAD of the host's driver saves a program whose run path leads to a stub.
host
stub stubs/libcuda.so.1
cuda_program p stubs/libcuda.so.1 '-Wl,-rpath,$ORIGIN/stubs'
LD_PRELOAD=/run/opengl-driver/lib/libcuda.so.1 start ./p
