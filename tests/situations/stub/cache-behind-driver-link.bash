# The stubs are in the cache, but the run path's driver link comes before the cache.
host
writable /usr/local
stub /usr/local/cuda/lib64/stubs/libcuda.so
cached /usr/local/cuda/lib64/stubs
cuda_program p /usr/local/cuda/lib64/stubs/libcuda.so -Wl,-rpath,/run/opengl-driver/lib
start ./p
