# --set LD_PRELOAD: the preloaded stub answers to the name libcuda.so.1, so the driver link is never looked at.
host
stub stubs/libcuda.so.1
cuda_program .p-wrapped stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
wrapper bin/p "$PWD/.p-wrapped" --set LD_PRELOAD "$PWD/stubs/libcuda.so.1"
start bin/p
