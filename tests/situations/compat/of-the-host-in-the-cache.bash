# The host has cuda-compat installed in /usr/local/cuda/compat and in ld.so.conf; the program asks for the driver link only.
host_driver 535.161.08 0
writable /usr/local
compat /usr/local/cuda-12.4/compat/libcuda.so.1 0 12.4 '[470,535]'
cached /usr/local/cuda-12.4/compat
cuda_program p /usr/local/cuda-12.4/compat/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
start ./p
