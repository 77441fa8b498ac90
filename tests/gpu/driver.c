/* A program of CUDA's driver API: says which libcuda.so.1 it runs with and whether a kernel computes on the GPU.
 *
 *   linked       cc driver.c -lcuda
 *   dlopened     cc -DDLOPEN driver.c -ldl          the library is named in a string only
 *   from below   cc -DBELOW driver.c -lone          another library, three levels down, opens it
 *
 * Prints one line, "cuInit=0 driver=13000 kernel=ok from=/path/libcuda.so.1", and exits with 0 if the kernel ran.
 * The prototypes are written out so that no CUDA header is needed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

typedef int result;
typedef unsigned long long pointer;

#if defined DLOPEN || defined BELOW
#ifdef BELOW
extern void *open_driver(void); /* in three.c */
#else
static void *open_driver(void) { return dlopen("libcuda.so.1", RTLD_NOW); }
#endif
#define CALL(type, name, ...) type (*name)(__VA_ARGS__)
#else
#define CALL(type, name, ...) extern type name(__VA_ARGS__)
#endif

CALL(result, cuInit, unsigned);
CALL(result, cuDriverGetVersion, int *);
CALL(result, cuDeviceGet, int *, int);
CALL(result, cuDevicePrimaryCtxRetain, void **, int);
CALL(result, cuCtxSetCurrent, void *);
CALL(result, cuModuleLoadData, void **, const void *);
CALL(result, cuModuleGetFunction, void **, void *, const char *);
CALL(result, cuMemAlloc_v2, pointer *, size_t);
CALL(result, cuMemcpyDtoH_v2, void *, pointer, size_t);
CALL(result, cuLaunchKernel, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
     void **);
CALL(result, cuCtxSynchronize, void);

/* out[i] = 3 * i, one thread each. */
static const char ptx[] =
    ".version 6.4\n.target sm_50\n.address_size 64\n"
    ".visible .entry triple(.param .u64 out)\n{\n"
    ".reg .u32 %r<3>;\n.reg .u64 %rd<4>;\n"
    "ld.param.u64 %rd1, [out];\ncvta.to.global.u64 %rd1, %rd1;\n"
    "mov.u32 %r1, %tid.x;\nmul.lo.u32 %r2, %r1, 3;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
    "st.global.u32 [%rd3], %r2;\nret;\n}\n";

static const char *run_kernel(void) {
  static char why[64];
  int device, out[32], i;
  void *context, *module, *function;
  pointer memory;
  void *arguments[] = {&memory};
#define TRY(call)                                                  \
  do {                                                             \
    result code = call;                                            \
    if (code != 0) {                                               \
      snprintf(why, sizeof why, "%.40s=%d", #call, code);          \
      return why;                                                  \
    }                                                              \
  } while (0)
  TRY(cuDeviceGet(&device, 0));
  TRY(cuDevicePrimaryCtxRetain(&context, device));
  TRY(cuCtxSetCurrent(context));
  TRY(cuModuleLoadData(&module, ptx));
  TRY(cuModuleGetFunction(&function, module, "triple"));
  TRY(cuMemAlloc_v2(&memory, sizeof out));
  TRY(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0));
  TRY(cuCtxSynchronize());
  TRY(cuMemcpyDtoH_v2(out, memory, sizeof out));
  for (i = 0; i < 32; i++)
    if (out[i] != 3 * i) return "wrong";
  return 0;
}

int main(void) {
  Dl_info info = {0};
  int version = 0;
  result code;
  const char *why;
#if defined DLOPEN || defined BELOW
  void *driver = open_driver();
  if (!driver) {
    printf("dlopen: %s\n", dlerror());
    return 1;
  }
#define FIND(name) *(void **)&name = dlsym(driver, #name)
  FIND(cuInit), FIND(cuDriverGetVersion), FIND(cuDeviceGet), FIND(cuDevicePrimaryCtxRetain), FIND(cuCtxSetCurrent);
  FIND(cuModuleLoadData), FIND(cuModuleGetFunction), FIND(cuMemAlloc_v2), FIND(cuMemcpyDtoH_v2), FIND(cuLaunchKernel);
  FIND(cuCtxSynchronize);
#endif
  code = cuInit(0);
  cuDriverGetVersion(&version);
  why = code == 0 ? run_kernel() : "not tried";
  dladdr((void *)cuInit, &info);
  printf("cuInit=%d driver=%d kernel=%s from=%s\n", code, version, why ? why : "ok", info.dli_fname ? info.dli_fname : "?");
  return why != 0;
}
