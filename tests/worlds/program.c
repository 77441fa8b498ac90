// What Nix, or a distribution, has built: says what the driver answers and from which file, then opens what it is given, as
// Python opens an extension module.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#ifdef NEEDS_DRIVER
int cuInit(unsigned);
#endif

int main(int count, char **args) {
#ifdef NEEDS_DRIVER
  Dl_info from;
  dladdr(dlsym(RTLD_DEFAULT, "cuInit"), &from);
  printf("cuInit %d from %s\n", cuInit(0), from.dli_fname);
#endif
  for (int i = 1; i < count; i++) {
    int (*f)(void), *handle = dlopen(args[i], RTLD_NOW);
    if (!handle) {
      printf("%s\n", dlerror());
      return 1;
    }
    f = dlsym(handle, "answer");
    printf("opened %s: %d\n", args[i], f ? f() : 0);
  }
  return 0;
}
