# As NVIDIA means it: the compat package is newer than the driver and stands first.
host_driver 535.161.08 0
compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
