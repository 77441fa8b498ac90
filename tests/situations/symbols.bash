# shellcheck shell=bash
# The situations of symbols: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# LD_BIND_NOW=1 makes a late error one of the start.
bind-now-variable() {
  with 'int absent(void); int g(void) { return absent(); }' library lib/libg.so.1 libg.so.1
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  LD_BIND_NOW=1 start ./p
}

# The library that defines the function is not needed by who calls it, but by another one of the same process.
by-a-dependencys-dependency() {
  with 'int offered(void) { return 0; }' library lib/liba.so.1 liba.so.1
  library lib/libmiddle.so.1 libmiddle.so.1 lib/liba.so.1 '-Wl,-rpath,$ORIGIN'
  with 'int offered(void); int g(void) { return offered(); }' library lib/libg.so.1 libg.so.1 -Wl,-z,now
  program p lib/libg.so.1 lib/libmiddle.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}

# cuFileRead begins as the driver's functions do, and is libcufile's: adding libcuda.so.1 would not help.
cufile-call() {
  host
  with 'int cuFileRead(void); int plugin(void) { return cuFileRead(); }' library plug/libf.so libf.so /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  opener p libf.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# Data that nothing defines ends the start at once, whatever the binding.
data() {
  with 'extern int absent; int g(void) { return absent; }' library lib/libg.so.1 libg.so.1
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}

# The library does not need libcuda.so.1, and works, because the driver was opened before with RTLD_GLOBAL.
driver-call-after-global() {
  with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
  with 'int cuMemCreate(void); int plugin(void) { return cuMemCreate(); }' library plug/libg.so libg.so
  opener p --global libcuda.so.1 libg.so -- '-Wl,-rpath,/run/opengl-driver/lib:$ORIGIN/plug'
  start ./p
}

# The same after RTLD_LOCAL: what the driver defines is not to be seen, and the library cannot be opened.
driver-call-after-local() {
  with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
  with 'int cuMemCreate(void); int plugin(void) { return cuMemCreate(); }' library plug/libg.so libg.so
  opener p libcuda.so.1 libg.so -- '-Wl,-rpath,/run/opengl-driver/lib:$ORIGIN/plug'
  limit="the flags of dlopen are in code" start ./p
}

# ctypes opens a library that calls the driver and does not need it; RTLD_GLOBAL does not help.
driver-call-ctypes() {
  with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
  with 'int cuMemCreate(void); int plugin(void) { return cuMemCreate(); }' library libg.so libg.so
  python p "ctypes.CDLL(\"$PWD/libg.so\", ctypes.RTLD_GLOBAL)"
  start ./p
}

# The program needs a library that calls cuMemCreate and needs no libcuda.so.1; it is bound late and called.
driver-call-late() {
  host
  with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1
  with 'int g(void); int run(void) { return g(); }' program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}

# The same, and nobody calls it: the program works.
driver-call-not-called() {
  host
  with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  because=cuMemCreate start ./p
}

# The library was linked with -z now: the program does not start.
driver-call-now() {
  host
  with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1 -Wl,-z,now
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}

# NixOS/nixpkgs 472447: an extension calls cuMemCreate, needs no libcuda.so.1, and is opened with RTLD_NOW.
driver-call-opened() {
  host
  with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library ext.so ext.so -Wl,-rpath,/run/opengl-driver/lib
  opener p ./ext.so
  start ./p
}

# The module needs libcuda.so.1, which defines the function: nothing is wrong, though Py* are defined by the interpreter alone.
driver-call-python-good() {
  with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
  with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' extension ext.so /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  python p 'import ext'
  start ./p
}

# The same as a module of Python's, which opens it with RTLD_NOW whatever its flags.
driver-call-python() {
  with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
  with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' extension ext.so -Wl,-rpath,/run/opengl-driver/lib
  python p 'import ext'
  start ./p
}

# The library does need libcuda.so.1, linked against a newer stub; the host's driver has no cuMemCreate.
driver-older() {
  host
  with 'int cuMemCreate(void) { return 34; }' stub stubs/libcuda.so.1
  with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1 stubs/libcuda.so.1 -Wl,-z,now,-rpath,/run/opengl-driver/lib
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}

# The host's driver needs a newer libstdc++ than the program brings: the driver cannot be loaded.
drivers-own-needs() {
  with 'int fresh(void) { return 0; }' versioned 'GLIBCXX_3.4 { f_*; }; GLIBCXX_3.4.99 { fresh; };' library newer/libstdc++.so.6 libstdc++.so.6
  versioned 'GLIBCXX_3.4 { *; };' library own/libstdc++.so.6 libstdc++.so.6
  with 'int fresh(void); int uses(void) { return fresh(); }' driver /run/opengl-driver/lib/libcuda.so.1 0 newer/libstdc++.so.6 "-Wl,-rpath,$PWD/newer"
  cuda_program p own/libstdc++.so.6 /run/opengl-driver/lib/libcuda.so.1 '-Wl,-rpath,/run/opengl-driver/lib:$ORIGIN/own'
  start ./p
}

# The address of a function in a table is data too: the start ends.
function-pointer() {
  with 'int absent(void); int (*table[])(void) = {absent};' library lib/libg.so.1 libg.so.1
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}

# A library that was built against a newer glibc than this machine has.
glibc-newer() {
  with 'int fresh(void) { return 0; }' versioned 'GLIBC_2.99 { fresh; };' library newer/libc.so.6 libc.so.6
  with 'int fresh(void); int g(void) { return fresh(); }' library lib/libg.so.1 libg.so.1 newer/libc.so.6
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}

# The library has the function and hides it: for others it is not there.
hidden() {
  with 'int offered(void) { return 0; }' library seen/libx.so.1 libx.so.1
  with '__attribute__((visibility("hidden"))) int offered(void) { return 0; } int use(void) { return offered(); }' library lib/libx.so.1 libx.so.1
  with 'int offered(void); int g(void) { return offered(); }' library lib/libg.so.1 libg.so.1 seen/libx.so.1 -Wl,-z,now
  program p lib/libg.so.1 lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}

# A libstdc++.so.6 of the program's own that lacks a GLIBCXX version which a plugin needs.
libstdc++-older() {
  versioned 'GLIBCXX_3.4 { *; };' library own/libstdc++.so.6 libstdc++.so.6
  with 'int fresh(void) { return 0; }' versioned 'GLIBCXX_3.4 { f_*; }; GLIBCXX_3.4.99 { fresh; };' library newer/libstdc++.so.6 libstdc++.so.6
  with 'int fresh(void); int plugin(void) { return fresh(); }' library plug/libplug.so libplug.so newer/libstdc++.so.6
  opener p libplug.so -- own/libstdc++.so.6 '-Wl,-rpath,$ORIGIN/own:$ORIGIN/plug'
  start ./p
}

# musl does not look at versions: a library that lacks the one that is needed does.
musl-no-versions() {
  on musl versioned 'V1 { f_v; };' library versioned/libv.so.1 libv.so.1
  on musl library plain/libv.so.1 libv.so.1
  on musl with 'int f_v(void); int run(void) { return f_v(); }' program p versioned/libv.so.1 "-Wl,-rpath,$PWD/plain"
  start ./p
}

# musl binds everything at once: a function that nobody calls and nothing defines ends the start.
musl-unbound() {
  on musl with 'int absent(void); int g(void) { return absent(); }' library lib/libg.so.1 libg.so.1
  on musl program p lib/libg.so.1 "-Wl,-rpath,$PWD/lib"
  start ./p
}

# The same the other way round: it works, and is ambiguous; what is said to be taken out must not be the newer one.
newer-first() {
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
  with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 "-Wl,-rpath,$PWD/new:$PWD/old"
  start ./p
}

# A library that needs versions and defines none (it has DT_VERSYM): a message, and the process goes on.
no-definitions-of-versions() {
  versioned 'V1 { f_v; };' library versioned/libv.so.1 libv.so.1
  with '#include <stdlib.h>
int own(void) { return abs(-1); } void *keep = (void *)malloc;' library plain/libv.so.1 libv.so.1
  with 'int f_v(void); int run(void) { return f_v(); }' program p versioned/libv.so.1 '-Wl,-rpath,$ORIGIN/plain'
  start ./p
}

# A library without DT_VERSYM and without any version: glibc aborts where a version of it is needed ("Inconsistency detected").
no-versions-at-all() {
  versioned 'V1 { f_v; };' library versioned/libv.so.1 libv.so.1
  library plain/libv.so.1 libv.so.1 -nostdlib
  with 'int f_v(void); int run(void) { return f_v(); }' program p versioned/libv.so.1 '-Wl,-rpath,$ORIGIN/plain'
  start ./p
}

# A call of NVML without libnvidia-ml.so.1, in a plugin.
nvml-call() {
  host
  with 'int nvmlInit_v2(void) { return 0; }' library /run/opengl-driver/lib/libnvidia-ml.so.1 libnvidia-ml.so.1
  with 'int nvmlInit_v2(void); int plugin(void) { return nvmlInit_v2(); }' library plug/libm.so libm.so /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  opener p libm.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# The first directory's copy lacks a version, the second's has it: taking the second directory out would leave nothing that works.
older-first() {
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
  with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 "-Wl,-rpath,$PWD/old:$PWD/new"
  start ./p
}

# A plugin that is opened with RTLD_LAZY: the open succeeds, and the call of what nothing defines ends the process.
opened-late() {
  with 'int absent(void); int plugin(void) { return absent(); }' library plug/libplug.so libplug.so
  opener p --lazy libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# The plugin takes a function from the program that opens it, which exports it.
opener-defines() {
  with 'int offered(void); int plugin(void) { return offered(); }' library plug/libplug.so libplug.so
  with 'int offered(void) { return 0; } int run(void) { return 0; }' opener p libplug.so -- -rdynamic '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# The program has the function and does not export it: the plugin cannot be opened.
opener-does-not-export() {
  with 'int offered(void); int plugin(void) { return offered(); }' library plug/libplug.so libplug.so
  with 'static int offered(void) { return 0; } int run(void) { return offered(); }' opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# The program brings a libc.so.6 that lacks what the program needs; another glibc's libc.so.6 first in the run path is no remedy.
own-libc-too-old() {
  versioned 'GLIBC_2.2.5 { f_*; };' library own/libc.so.6 libc.so.6 -nostdlib
  program p '-Wl,-rpath,$ORIGIN/own'
  start ./p
}

# The program copies a variable of its library, and the older library has none.
programs-own-data() {
  with 'int fresh = 1;' library new/libx.so.1 libx.so.1
  library old/libx.so.1 libx.so.1
  with 'extern int fresh; int run(void) { return fresh; }' program p new/libx.so.1 '-Wl,-rpath,$ORIGIN/old' -fPIE
  start ./p
}

# The program itself calls what its library, exchanged for an older one, does not define; bound late and called.
programs-own-function() {
  with 'int fresh(void) { return 0; }' library new/libx.so.1 libx.so.1
  library old/libx.so.1 libx.so.1
  with 'int fresh(void); int run(void) { return fresh(); }' program p new/libx.so.1 '-Wl,-rpath,$ORIGIN/old'
  start ./p
}

# A hardened program (-z now) that calls what its older library does not define: it does not start.
programs-own-now() {
  with 'int fresh(void) { return 0; }' library new/libx.so.1 libx.so.1
  library old/libx.so.1 libx.so.1
  with 'int fresh(void); int run(void) { return 0 ? fresh() : 0; } void *keep = (void *)fresh;' program p new/libx.so.1 -Wl,-z,now '-Wl,-rpath,$ORIGIN/old'
  start ./p
}

# A library that was opened local is opened again global: from then on others see what it defines.
promoted() {
  with 'int offered(void) { return 0; }' library plug/liba.so liba.so
  with 'int offered(void); int plugin(void) { return offered(); }' library plug/libb.so libb.so
  opener p liba.so libb.so --global liba.so --local libb.so -- '-Wl,-rpath,$ORIGIN/plug'
  limit="the flags of dlopen are in code" start ./p
}

# A call of the CUDA runtime, cudaMalloc, in an extension that does not need libcudart.
runtime-call() {
  with 'int cudaMalloc(void); int g(void) { return cudaMalloc(); }' extension ext.so
  python p 'import ext'
  start ./p
}

# The same library needed by the program: at the start there is room.
static-tls-at-start() {
  with '__thread char big[65536] __attribute__((tls_model("initial-exec"))); int plugin(void) { return big[1]; }' library plug/libplug.so libplug.so
  program p plug/libplug.so '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# A plugin with more thread-local data of the initial-exec kind than the loader keeps room for cannot be opened.
static-tls() {
  with '__thread char big[65536] __attribute__((tls_model("initial-exec"))); int plugin(void) { return big[1]; }' library plug/libplug.so libplug.so
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# A thread-local variable that nothing defines ends the start.
thread-local() {
  with 'extern __thread int absent; int g(void) { return absent; }' library lib/libg.so.1 libg.so.1
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}

# The library defines the version still, and the function in it no longer.
version-kept-name-gone() {
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; f_w; };' library new/libv.so.1 libv.so.1
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 -Wl,-z,now '-Wl,-rpath,$ORIGIN/old'
  start ./p
}

# The version is needed by a weak reference alone: its absence does not end the start.
version-missing-weak() {
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
  with 'int f_w(void) __attribute__((weak)); int f_v(void); int run(void) { return f_w ? f_w() : f_v(); }' program p new/libv.so.1 '-Wl,-rpath,$ORIGIN/old'
  # The flag VER_FLG_WEAK, after the hash of "V2" in the list of needed versions: GNU ld does not set it.
  LC_ALL=C sed -i 's/\x92\x05\x00\x00\x00\x00/\x92\x05\x00\x00\x02\x00/' p
  readelf -VW p | grep -q 'Name: V2  Flags: WEAK' || cannot "the flag is not set"
  start ./p
}

# The library is there and lacks the version that the program was linked against: the start ends.
version-missing() {
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
  with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 '-Wl,-rpath,$ORIGIN/old'
  start ./p
}

# A weak function and weak data that nothing defines are zero.
weak() {
  with 'extern int absent __attribute__((weak)); int gone(void) __attribute__((weak)); int g(void) { return &absent ? gone() : 0; }' library lib/libg.so.1 libg.so.1 -Wl,-z,now
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  start ./p
}
