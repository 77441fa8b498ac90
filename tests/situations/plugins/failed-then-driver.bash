# The first plugin brings a stub and cannot be opened; the second brings the host's driver, and everything works.
host
stub stubs/libcuda.so.1
library gone/libgone.so.1 libgone.so.1
cuda_library a/libpa.so libpa.so stubs/libcuda.so.1 gone/libgone.so.1 "-Wl,-rpath,$PWD/stubs"
cuda_library b/libpb.so libpb.so stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
rm -r gone
opener p libpa.so libpb.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
start ./p
