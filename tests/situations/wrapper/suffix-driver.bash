# --suffix puts the driver link behind what the user has set, and that is where the stub is.
host
stub stubs/libcuda.so.1
cuda_program .p-wrapped stubs/libcuda.so.1
wrapper bin/p "$PWD/.p-wrapped" --suffix LD_LIBRARY_PATH : /run/opengl-driver/lib
LD_LIBRARY_PATH=$PWD/stubs start bin/p
