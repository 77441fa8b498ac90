# The note, written on a machine with a GPU, names the driver's file itself; the host's driver is gone since, and the cache has a stub.
writable /usr/local
stub /usr/local/cuda/lib64/stubs/libcuda.so.1
cached /usr/local/cuda/lib64/stubs
cuda_program p /usr/local/cuda/lib64/stubs/libcuda.so.1 "$(note libcuda.so.1 =/run/opengl-driver/lib/libcuda.so.1)" -Wl,-rpath,/run/opengl-driver/lib
start ./p
