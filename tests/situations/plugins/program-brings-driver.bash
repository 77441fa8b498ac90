# The plugin's own run path leads to a stub, but the program that opens it has the driver already: nothing is wrong.
host
stub stubs/libcuda.so.1
cuda_library b/libpb.so libpb.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
opener p libpb.so -- stubs/libcuda.so.1 '-Wl,-rpath,/run/opengl-driver/lib:$ORIGIN/b'
start ./p
