// The shape of NixOS's stub-ld.
#include <stdio.h>
int main(int count, char **args) {
  fprintf(stderr, "Could not start dynamically linked executable: %s\nNixOS cannot run dynamically linked executables intended for generic\nlinux environments out of the box.\n", args[0]);
  return 127;
}
