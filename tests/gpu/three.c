/* The lowest of three libraries: the only one that names the driver, and only in a string. */
#include <dlfcn.h>
void *open_driver_here(void) { return dlopen("libcuda.so.1", RTLD_NOW); }
