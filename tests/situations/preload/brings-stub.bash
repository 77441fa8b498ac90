# The preloaded library leads libcuda.so.1 to a stub, but the program needs it too, and its own needs are searched first: the driver.
host
stub stubs/libcuda.so.1
library pre/libpre.so libpre.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
cuda_program p stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
LD_PRELOAD=$PWD/pre/libpre.so start ./p
