/* The main function of every program of the situations: it opens what it is told to, in order, passes over what cannot be
   opened, and prints which objects are in the process at its start and after each open. Its status is that of what it runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

#define CLOSE 0x10000 /* of a mode: close it again */
struct open { const char *name; int mode; };
extern const struct open opens[];
extern const char *const entry; /* what of an opened library is called, where it has it */
int run(void);

static int object(struct dl_phdr_info *info, size_t size, void *count)
{
  (void)size;
  if ((*(int *)count)++ && info->dlpi_name[0]) /* the first is the program */
    printf("@object %s\n", info->dlpi_name);
  return 0;
}

static void state(void)
{
  int count = 0;
  dl_iterate_phdr(object, &count);
  puts("@state");
  fflush(stdout);
}

int main(void)
{
  int status = 0;
  char program[4096];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  if (length > 0)
    printf("@program %.*s\n", (int)length, program);
  if (getcwd(program, sizeof program)) /* the loader's names may be relative to it */
    printf("@directory %s\n", program);
  state();
  for (const struct open *o = opens; o->name; o++) {
    void *handle = dlopen(o->name, o->mode & ~CLOSE);
    if (!handle) {
      printf("@failed %s\t%s\n", o->name, dlerror());
    } else {
      struct link_map *map = 0;
      int (*function)(void) = (int (*)(void))dlsym(handle, entry);
      dlinfo(handle, RTLD_DI_LINKMAP, &map);
      printf("@opened %s\t%s\n", o->name, map ? map->l_name : "");
      state();
      if (function && !status)
        status = function();
      if (!(o->mode & CLOSE))
        continue;
      printf("@closed %s\t\n", o->name);
      dlclose(handle);
    }
    state();
  }
  int own = run();
  state();
  return status ? status : own;
}
