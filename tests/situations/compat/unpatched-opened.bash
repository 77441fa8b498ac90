# The unpatched compat library is opened by name: the open fails whole, and the driver behind it is not tried.
host_driver 35.4.1 0
library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so
opener p --entry cuInit libcuda.so.1 -- -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
