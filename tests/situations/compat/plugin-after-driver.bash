# The program has the driver; a plugin's run path begins with compat: the soname answers, compat is not loaded.
host_driver 535.161.08 0
compat cuda_compat/compat/libcuda.so.1 803 12.2 '[470]'
library plug.so '' cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat'
opener p --entry cuInit ./plug.so -- /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
start ./p
