# The host's compat directory is in the cache and there is no driver link at all: the cache gives compat.
writable /usr/local
compat /usr/local/cuda-12.4/compat/libcuda.so.1 0 12.4 '[470,535]'
cached /usr/local/cuda-12.4/compat
cuda_program p /usr/local/cuda-12.4/compat/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
start ./p
