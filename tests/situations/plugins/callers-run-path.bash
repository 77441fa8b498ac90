# The library that calls dlopen is asked for its own run path: the program's leads nowhere.
library plug/libplug.so libplug.so
with '#include <dlfcn.h>
  __attribute__((constructor)) static void load(void) { dlopen("libplug.so", RTLD_NOW); }' library l/libopens.so libopens.so '-Wl,-rpath,$ORIGIN/../plug'
program p l/libopens.so '-Wl,-rpath,$ORIGIN/l'
start ./p
