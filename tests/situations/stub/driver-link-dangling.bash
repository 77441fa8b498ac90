# The driver link leads to a driver that was removed; LD_LIBRARY_PATH of a development shell still holds the stubs.
ln -s /run/gone-driver /run/opengl-driver
stub sdk/stubs/libcuda.so.1
cuda_program p sdk/stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
LD_LIBRARY_PATH="$PWD/sdk/stubs" start ./p
