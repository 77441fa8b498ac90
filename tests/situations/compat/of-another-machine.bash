# The compat package in the run path is Jetson's, for arm64: a program of this machine passes over it.
host_driver 535.161.08 0
on arm64 compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
