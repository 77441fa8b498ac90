# cuDNN 9 and NCCL 2 go with CUDA 12 as with 13: their numbers are their own.
host
library lib/libcudart.so.13 libcudart.so.13
library lib/libcudnn.so.9 libcudnn.so.9
library lib/libnccl.so.2 libnccl.so.2
program p lib/libcudart.so.13 lib/libcudnn.so.9 lib/libnccl.so.2 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
start ./p
