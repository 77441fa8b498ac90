# A runtime that opens libcuda.so.1 by name when it is called: its own run path has no driver link, and the program's does not count.
host
with '#include <dlfcn.h>
  int cudaInit(void) { void *h = dlopen("libcuda.so.1", RTLD_NOW); return h ? 0 : 35; }' library lib/libcudart.so.12 libcudart.so.12
with 'int cudaInit(void); int run(void) { return cudaInit(); }' program p lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
because=libcuda.so.1
start ./p
