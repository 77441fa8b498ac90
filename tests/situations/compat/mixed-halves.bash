# libcuda is the driver's, the PTX compiler, which only compat has here, is compat's: what it compiles the driver refuses (218).
host_driver 535.161.08 0
compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
with 'int cuInit(int f) { return 218; }' library cuda_compat/compat/libnvidia-ptxjitcompiler.so.1 libnvidia-ptxjitcompiler.so.1
opener p --entry cuInit libcuda.so.1 libnvidia-ptxjitcompiler.so.1 -- -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/cuda_compat/compat'
start ./p
