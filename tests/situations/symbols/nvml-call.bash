# A call of NVML without libnvidia-ml.so.1, in a plugin.
host
with 'int nvmlInit_v2(void) { return 0; }' library /run/opengl-driver/lib/libnvidia-ml.so.1 libnvidia-ml.so.1
with 'int nvmlInit_v2(void); int plugin(void) { return nvmlInit_v2(); }' library plug/libm.so libm.so /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
opener p libm.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
