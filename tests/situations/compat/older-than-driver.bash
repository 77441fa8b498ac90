# The compat package is older than the host's driver and stands first: cuInit says 803 (803 % 256 is 35).
host_driver 580.95.05 0
compat cuda_compat/compat/libcuda.so.1 803 12.2 '[450,470,525]'
cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
