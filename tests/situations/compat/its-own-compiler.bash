# The compat libcuda opens its PTX compiler by name and has no run path: the compiler beside it is not found, the host's cache has none.
because=libnvidia-ptxjitcompiler.so.1
host_driver 535.161.08 0
with 'void *dlopen(const char *, int); __attribute__((constructor)) static void start(void) { dlopen("libnvidia-ptxjitcompiler.so.1", 2); }' \
  compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
library cuda_compat/compat/libnvidia-ptxjitcompiler.so.1 libnvidia-ptxjitcompiler.so.1
cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
