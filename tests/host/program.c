/* A program that needs the driver, as Nix builds one: says which driver it got, and what else it can open.
 * Prints "cuda 12020 from /path/libcuda.so.1", then for each argument "NAME: ok" or why not, and where each of the
 * driver's libraries that are loaded lies. cuInit is not called: it needs a GPU. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

int cuDriverGetVersion(int *);

static int show(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  if (strstr(info->dlpi_name, "nvidia") || strstr(info->dlpi_name, "libX"))
    printf("loaded %s\n", info->dlpi_name);
  return 0;
}

int main(int count, char **names) {
  Dl_info info;
  int version = 0;
  if (cuDriverGetVersion(&version) != 0 || !dladdr((void *)dlsym(RTLD_DEFAULT, "cuInit"), &info))
    return 1;
  printf("cuda %d from %s\n", version, info.dli_fname);
  for (int i = 1; i < count; i++)
    printf("%s: %s\n", names[i], dlopen(names[i], RTLD_NOW) ? "ok" : dlerror());
  dl_iterate_phdr(show, NULL);
  return 0;
}
