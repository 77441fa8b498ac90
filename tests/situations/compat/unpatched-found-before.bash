# The unpatched compat library comes second: the program needs libnvrm_gpu.so itself, so it is there by then.
host_driver 35.4.1 0
library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so
cuda_program p cuda_compat/compat/libcuda.so.1 /run/opengl-driver/lib/libnvrm_gpu.so -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
