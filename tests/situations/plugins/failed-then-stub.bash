# The first plugin brings the host's driver and cannot be opened; what it brought is unloaded, and the second brings a stub.
host
stub stubs/libcuda.so.1
library gone/libgone.so.1 libgone.so.1
cuda_library a/libpa.so libpa.so stubs/libcuda.so.1 gone/libgone.so.1 -Wl,-rpath,/run/opengl-driver/lib
cuda_library b/libpb.so libpb.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
rm -r gone
opener p libpa.so libpb.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
start ./p
