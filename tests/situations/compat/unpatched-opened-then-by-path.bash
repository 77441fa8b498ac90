# The unpatched compat library fails to open; the driver, then opened by its path, is loaded: nothing of compat is left.
host_driver 35.4.1 0
library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so
opener p --entry cuInit libcuda.so.1 /run/opengl-driver/lib/libcuda.so.1 -- -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
