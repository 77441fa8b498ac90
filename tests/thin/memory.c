/* memory LIBRARY FILE: opens a library, prints its digest, and writes its memory to a file, as /proc/self/maps has it: page
   by page, a byte that says whether it can be read, and what it holds. Addresses in it count from where it begins. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct span { uintptr_t base, end; };

/* extend lets a span end where the library does that begins with it. */
static int extend(struct dl_phdr_info *info, size_t size, void *arg) {
  struct span *span = arg;
  for (int i = 0; size && info->dlpi_addr == span->base && i < info->dlpi_phnum; i++) {
    uintptr_t end = span->base + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && end > span->end) span->end = end;
  }
  return 0;
}

int main(int n, char **arg) {
  void *library = n > 2 ? dlopen(arg[1], RTLD_NOW) : 0;
  struct link_map *map;
  if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) return fprintf(stderr, "%s\n", dlerror()), 1;
  unsigned long (*digest)(void) = (unsigned long (*)(void))dlsym(library, "digest");
  if (digest) printf("%lx\n", digest());
  uintptr_t base = map->l_addr, end;
  struct span span = {base, base};
  dl_iterate_phdr(extend, &span);
  end = (span.end + 4095) & -4096UL;
  char *readable = calloc((end - base) / 4096, 1), line[4096];
  FILE *maps = fopen("/proc/self/maps", "r"), *out = fopen(arg[2], "w");
  while (fgets(line, sizeof line, maps)) {
    uintptr_t from, to;
    char r;
    if (sscanf(line, "%lx-%lx %c", &from, &to, &r) == 3 && r == 'r')
      for (uintptr_t at = from > base ? from : base; at < to && at < end; at += 4096) readable[(at - base) / 4096] = 1;
  }
  for (uintptr_t at = base; at < end; at += 4096) {
    uint64_t page[512] = {0};
    if (readable[(at - base) / 4096]) memcpy(page, (void *)at, 4096);
    for (int i = 0; i < 512; i++)
      if (page[i] >= base && page[i] < end) page[i] -= base;
      else if (page[i] >> 44 == 5 || page[i] >> 44 == 7) page[i] = 1; /* in another library, which is elsewhere each time */
    fputc(readable[(at - base) / 4096], out);
    fwrite(page, 4096, 1, out);
  }
  return fclose(out);
}
