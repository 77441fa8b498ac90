# The same package with the driver link in its own run path, as nixpkgs' build leaves it.
host_driver 35.4.1 0
library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so -Wl,-rpath,/run/opengl-driver/lib
cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
