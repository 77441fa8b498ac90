# The compat directory is there and empty (a package for another system): the driver is loaded.
host_driver 535.161.08 0
mkdir -p cuda_compat/compat
cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
