# The plugin opens another one when it is loaded, by its own run path; that one needs what is not there.
library gone/libgone.so libgone.so
library inner/libinner.so libinner.so gone/libgone.so
rm -r gone
with '#include <dlfcn.h>
  int plugin(void) { return dlopen("libinner.so", RTLD_NOW) ? 0 : 9; }' library plug/libplug.so libplug.so '-Wl,-rpath,$ORIGIN/../inner'
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
because=libgone.so
start ./p
