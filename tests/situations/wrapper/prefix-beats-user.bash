# --prefix puts the driver link before what the user has set: his stub directory does no harm.
host
stub stubs/libcuda.so.1
cuda_program .p-wrapped stubs/libcuda.so.1
wrapper bin/p "$PWD/.p-wrapped" --prefix LD_LIBRARY_PATH : /run/opengl-driver/lib
LD_LIBRARY_PATH=$PWD/stubs start bin/p
