# Nothing fails: the stub that the first plugin brings serves the second, whose own run path leads to the driver.
host
stub stubs/libcuda.so.1
cuda_library a/libpa.so libpa.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
cuda_library b/libpb.so libpb.so stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
opener p libpa.so libpb.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
start ./p
