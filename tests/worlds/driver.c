// A library of the driver. cuInit answers 0 where the PTX compiler is found too, as the real one looks for it.
#include <dlfcn.h>
int cuInit(unsigned flags) { return dlopen("libnvidia-ptxjitcompiler.so.1", RTLD_NOW) ? 0 : 221; }
int answer(void) { return 42; }
