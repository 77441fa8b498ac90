# The program has the plugin's directory and the library that calls dlopen has not: it is not found.
library plug/libplug.so libplug.so
with '#include <dlfcn.h>
  int plugin(void) { return dlopen("libplug.so", RTLD_NOW) ? 0 : 9; }' library l/libopens.so libopens.so
with 'int plugin(void); int run(void) { return plugin(); }' program p l/libopens.so '-Wl,-rpath,$ORIGIN/l:$ORIGIN/plug'
start ./p
