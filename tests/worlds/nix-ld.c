// The shape of nix-ld: at the loader's place it becomes $NIX_LD, or the loader below, with $NIX_LD_LIBRARY_PATH for LD_LIBRARY_PATH.
#include <elf.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#define DEFAULT "/run/current-system/sw/share/nix-ld/lib"

int main(int count, char **args) {
  const char *loader = getenv("NIX_LD"), *path = getenv("NIX_LD_LIBRARY_PATH");
  char *more[count + 2];
  more[0] = (char *)(loader ? loader : DEFAULT "/ld.so");
  more[1] = (char *)getauxval(AT_EXECFN);
  for (int i = 1; i <= count; i++)
    more[i + 1] = args[i];
  setenv("LD_LIBRARY_PATH", path ? path : DEFAULT, 1);
  execv(more[0], more);
  return 127;
}
