# musl: the run path of the library that calls dlopen does not count for the bare name.
on musl library plug/libplug.so libplug.so
on musl with '#include <dlfcn.h>
  int plugin(void) { return dlopen("libplug.so", RTLD_NOW) ? 0 : 9; }' library l/libopens.so libopens.so "-Wl,-rpath,$PWD/plug"
on musl with 'int plugin(void); int run(void) { return plugin(); }' program p l/libopens.so "-Wl,-rpath,$PWD/l"
start ./p
