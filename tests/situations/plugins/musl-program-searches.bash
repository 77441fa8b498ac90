# musl: a bare name given to dlopen is searched by the program's run path, whoever calls.
on musl library plug/libplug.so libplug.so
on musl with '#include <dlfcn.h>
  int plugin(void) { return dlopen("libplug.so", RTLD_NOW) ? 0 : 9; }' library l/libopens.so libopens.so
on musl with 'int plugin(void); int run(void) { return plugin(); }' program p l/libopens.so "-Wl,-rpath,$PWD/l:$PWD/plug"
start ./p
