# The program has no run path, and works all the same: makeWrapper's --prefix gives the driver link.
host
stub stubs/libcuda.so.1
cuda_program .p-wrapped stubs/libcuda.so.1
rm -r stubs
wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : /run/opengl-driver/lib
start bin/p
