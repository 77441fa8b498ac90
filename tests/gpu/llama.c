/* Loads llama.cpp's CUDA back end as its own loader does (dlopen of the full path) and initialises it on the first GPU.
 * Prints one line and exits with 0 if the back end is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW), *backend;
  int (*count)(void);
  void *(*init)(int);
  const char *(*name)(void *);
  void (*describe)(int, char *, size_t);
  char description[128] = "";
  Dl_info info = {0};
  if (!library) {
    printf("dlopen: %s\n", dlerror());
    return 1;
  }
  *(void **)&count = dlsym(library, "ggml_backend_cuda_get_device_count");
  *(void **)&describe = dlsym(library, "ggml_backend_cuda_get_device_description");
  *(void **)&init = dlsym(library, "ggml_backend_cuda_init");
  *(void **)&name = dlsym(library, "ggml_backend_name"); /* of libggml-base, which came with it */
  if (!count || !describe || !init || !name) {
    printf("dlsym: %s\n", dlerror());
    return 1;
  }
  printf("devices=%d", count());
  if (count() > 0) describe(0, description, sizeof description);
  backend = init(0);
  dladdr(dlsym(library, "cuInit"), &info);
  printf(" description=%s backend=%s from=%s\n", description, backend ? name(backend) : "none",
         info.dli_fname ? info.dli_fname : "?");
  return !backend;
}
