# LD_PRELOAD of a stub: it answers to libcuda.so.1, so the driver link in the run path is never searched.
host
stub stubs/libcuda.so.1
cuda_program p stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
LD_PRELOAD=$PWD/stubs/libcuda.so.1 start ./p
