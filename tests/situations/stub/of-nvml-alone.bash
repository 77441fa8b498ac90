# The stub directory holds NVML's stub alone: libcuda is the driver's, libnvidia-ml is not.
host
with 'int nvmlInit_v2(void) { return 0; }' library /run/opengl-driver/lib/libnvidia-ml.so.1 libnvidia-ml.so.1
with 'int nvmlInit_v2(void) { return 9; }' library lib/stubs/libnvidia-ml.so.1 libnvidia-ml.so.1
with 'int cuInit(int), nvmlInit_v2(void); int run(void) { return cuInit(0) + nvmlInit_v2(); }' program p /run/opengl-driver/lib/libcuda.so.1 lib/stubs/libnvidia-ml.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
start ./p
