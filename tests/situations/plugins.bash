# shellcheck shell=bash
# The situations of plugins: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# A position-independent program cannot be opened as a library.
a-program() {
  program plug/tool.so
  opener p "$PWD/plug/tool.so"
  start ./p
}

# The only file of that name lies in a directory that anyone can write to: no remedy may lead there.
anyones-directory() {
  library anyone/libx.so.1 libx.so.1
  program app/p anyone/libx.so.1
  chmod 1777 anyone
  start app/p
}

# The plugin's dependency is found by LD_LIBRARY_PATH alone, which whoever starts the program has set.
by-environment() {
  library x/libdep.so libdep.so
  library plug/libplug.so libplug.so x/libdep.so
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  LD_LIBRARY_PATH=$PWD/x start ./p
}

# The library that calls dlopen is asked for its own run path: the program's leads nowhere.
callers-run-path() {
  library plug/libplug.so libplug.so
  with '#include <dlfcn.h>
  __attribute__((constructor)) static void load(void) { dlopen("libplug.so", RTLD_NOW); }' library l/libopens.so libopens.so '-Wl,-rpath,$ORIGIN/../plug'
  program p l/libopens.so '-Wl,-rpath,$ORIGIN/l'
  start ./p
}

# The first copy is closed again and unloaded, so the name is searched anew.
closed-then-other-copy() {
  library a/libx.so.1 libx.so.1
  library b/libx.so.1 libx.so.1 -lm
  library plug/libplug.so libplug.so b/libx.so.1 '-Wl,-rpath,$ORIGIN/../b'
  opener p --close "$PWD/a/libx.so.1" libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# A file that is no library lies before the right one: that ends the search, and the plugin cannot be opened.
damaged-first() {
  mkdir a; head -c 200 /dev/zero | tr '\0' x >a/libplug.so
  library b/libplug.so libplug.so
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
  start ./p
}

# Another program of the directory would bring what the plugin needs; the one that opens the plugin does not.
dependency-of-another-program() {
  library x/libdep.so libdep.so
  library plug/libplug.so libplug.so x/libdep.so
  program other x/libdep.so '-Wl,-rpath,$ORIGIN/x'
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# The plugin has no run path, and what it needs is in the process already, because the program needs it too.
dependency-of-the-program() {
  library x/libdep.so libdep.so
  library plug/libplug.so libplug.so x/libdep.so
  opener p libplug.so -- x/libdep.so '-Wl,-rpath,$ORIGIN/plug:$ORIGIN/x'
  start ./p
}

# lib0 has a DT_RPATH that would serve lib2's need, but nobody needs or opens lib0: the program dies.
dt-rpath-of-nobody() {
  library c/lib3.so.1 lib3.so.1
  library c/lib2.so.1 lib2.so.1 c/lib3.so.1
  library c/lib0.so.1 lib0.so.1 c/lib2.so.1 -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN'
  program p c/lib2.so.1 '-Wl,-rpath,$ORIGIN/c'
  start ./p
}

# The library in the middle has the DT_RPATH: it counts for what those need that it brings in.
dt-rpath-of-the-chain() {
  library x/libdep.so libdep.so
  library m/libmiddle.so libmiddle.so x/libdep.so
  library plug/libplug.so libplug.so m/libmiddle.so -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN/../m:$ORIGIN/../x'
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# The plugin's dependency is found by the program's DT_RPATH, which counts for what it opens.
dt-rpath-serves() {
  library x/libdep.so libdep.so
  library plug/libplug.so libplug.so x/libdep.so
  opener p libplug.so -- -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN/plug:$ORIGIN/x'
  start ./p
}

# The same with DT_RUNPATH, which counts for the program's own needs alone: the plugin cannot be opened.
dt-runpath-does-not-serve() {
  library x/libdep.so libdep.so
  library plug/libplug.so libplug.so x/libdep.so
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug:$ORIGIN/x'
  start ./p
}

# cuDNN opens its engines by name; a wheel without one of them cannot use it, and the program goes on without.
engines-absent() {
  library cudnn/libcudnn_ops.so.9 libcudnn_ops.so.9
  opener p libcudnn_ops.so.9 libcudnn_engines_tensor_ir.so.9 -- '-Wl,-rpath,$ORIGIN/cudnn'
  start ./p
}

# A plugin that asks for an executable stack: glibc before 2.41 makes the stack so, later ones refuse.
executable-stack() {
  [[ $(getconf GNU_LIBC_VERSION) < 'glibc 2.41' ]] || cannot "this glibc does not open it"
  library plug/libplug.so libplug.so -Wl,-z,execstack
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# A plugin that cannot be opened had mapped a/libx.so; the next one has its own b/libx.so, and that is the one in the process.
failed-leaves-nothing() {
  library a/libx.so libx.so
  library b/libx.so libx.so -lm
  library gone/libgone.so libgone.so
  library f/libfail.so libfail.so a/libx.so gone/libgone.so '-Wl,-rpath,$ORIGIN/../a'
  library o/libok.so libok.so b/libx.so '-Wl,-rpath,$ORIGIN/../b'
  rm -r gone
  opener p libfail.so libok.so libx.so -- '-Wl,-rpath,$ORIGIN/f:$ORIGIN/o'
  start ./p
}

# What was in the process before a failed open stays, with its names: the second plugin gets the copy of the first.
failed-leaves-what-was-there() {
  library a/libx.so libx.so
  library b/libx.so libx.so -lm
  library gone/libgone.so libgone.so
  library f/libfirst.so libfirst.so a/libx.so '-Wl,-rpath,$ORIGIN/../a'
  library f/libfail.so libfail.so b/libx.so gone/libgone.so '-Wl,-rpath,$ORIGIN/../b'
  library f/libok.so libok.so b/libx.so '-Wl,-rpath,$ORIGIN/../b'
  rm -r gone
  opener p libfirst.so libfail.so libok.so -- '-Wl,-rpath,$ORIGIN/f'
  start ./p
}

# The same with a library that asks to stay (DF_1_NODELETE): the flag counts only once an open has succeeded.
failed-nodelete() {
  library a/libx.so libx.so -Wl,-z,nodelete
  library b/libx.so libx.so -lm
  library gone/libgone.so libgone.so
  library f/libfail.so libfail.so a/libx.so gone/libgone.so '-Wl,-rpath,$ORIGIN/../a'
  library o/libok.so libok.so b/libx.so '-Wl,-rpath,$ORIGIN/../b'
  rm -r gone
  opener p libfail.so libok.so -- '-Wl,-rpath,$ORIGIN/f:$ORIGIN/o'
  start ./p
}

# A plugin fails because what it needs is not there yet; another brings that, and then the first can be opened by no change of its own.
failed-then-again() {
  library x/libdep.so libdep.so
  library f/libplug.so libplug.so x/libdep.so
  library f/libother.so libother.so x/libdep.so '-Wl,-rpath,$ORIGIN/../x'
  opener p libplug.so libother.so libplug.so -- '-Wl,-rpath,$ORIGIN/f'
  start ./p
}

# The first plugin brings a stub and cannot be opened; the second brings the host's driver, and everything works.
failed-then-driver() {
  host
  stub stubs/libcuda.so.1
  library gone/libgone.so.1 libgone.so.1
  cuda_library a/libpa.so libpa.so stubs/libcuda.so.1 gone/libgone.so.1 "-Wl,-rpath,$PWD/stubs"
  cuda_library b/libpb.so libpb.so stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  rm -r gone
  opener p libpa.so libpb.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
  start ./p
}

# The first plugin brings the host's driver and cannot be opened; what it brought is unloaded, and the second brings a stub.
failed-then-stub() {
  host
  stub stubs/libcuda.so.1
  library gone/libgone.so.1 libgone.so.1
  cuda_library a/libpa.so libpa.so stubs/libcuda.so.1 gone/libgone.so.1 -Wl,-rpath,/run/opengl-driver/lib
  cuda_library b/libpb.so libpb.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
  rm -r gone
  opener p libpa.so libpb.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
  start ./p
}

# The same with code for this GPU.
gpu-code-fits() {
  host
  cuda_library plug/libplug.so libplug.so /run/opengl-driver/lib/libcuda.so.1 "$(gpu 80 90)" -Wl,-rpath,/run/opengl-driver/lib
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  gpu=9.0 start ./p
}

# The plugin that the program opens by name has GPU code, and none that this host's GPU can run.
gpu-code-missing() {
  host
  cuda_library plug/libplug.so libplug.so /run/opengl-driver/lib/libcuda.so.1 "$(gpu 70 80)" -Wl,-rpath,/run/opengl-driver/lib
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  gpu=9.0 because=libplug.so start ./p
}

# Two copies of a library with GPU code: the first open decides that the one without code for this GPU serves both plugins.
gpu-code-of-other-copy() {
  host
  cuda_library a/libg.so.1 libg.so.1 "$(gpu 80)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  cuda_library b/libg.so.1 libg.so.1 "$(gpu 90)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  library plug/libone.so libone.so a/libg.so.1 '-Wl,-rpath,$ORIGIN/../a'
  library plug/libtwo.so libtwo.so b/libg.so.1 '-Wl,-rpath,$ORIGIN/../b'
  opener p libone.so libtwo.so -- '-Wl,-rpath,$ORIGIN/plug'
  gpu=9.0 because=libg.so.1 start ./p
}

# Two names of one file by a symbolic link: the inode is the same, so it is loaded once.
link-of-one-file() {
  library a/libx.so ''
  mkdir b; ln -s ../a/libx.so b/liby.so
  opener p libx.so liby.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
  start ./p
}

# musl: the run path of the library that calls dlopen does not count for the bare name.
musl-caller-does-not() {
  on musl library plug/libplug.so libplug.so
  on musl with '#include <dlfcn.h>
  int plugin(void) { return dlopen("libplug.so", RTLD_NOW) ? 0 : 9; }' library l/libopens.so libopens.so "-Wl,-rpath,$PWD/plug"
  on musl with 'int plugin(void); int run(void) { return plugin(); }' program p l/libopens.so "-Wl,-rpath,$PWD/l"
  start ./p
}

# musl: a bare name given to dlopen is searched by the program's run path, whoever calls.
musl-program-searches() {
  on musl library plug/libplug.so libplug.so
  on musl with '#include <dlfcn.h>
  int plugin(void) { return dlopen("libplug.so", RTLD_NOW) ? 0 : 9; }' library l/libopens.so libopens.so
  on musl with 'int plugin(void); int run(void) { return plugin(); }' program p l/libopens.so "-Wl,-rpath,$PWD/l:$PWD/plug"
  start ./p
}

# musl: the program's DT_RUNPATH counts for what its libraries need, which glibc's does not.
musl-run-path-is-inherited() {
  on musl library x/libdep.so libdep.so
  on musl library plug/libplug.so libplug.so x/libdep.so
  on musl opener p libplug.so -- "-Wl,-rpath,$PWD/plug:$PWD/x"
  start ./p
}

# By name, then another copy by path: a path is not matched by a soname, so both copies are in the process.
name-then-path() {
  library a/libx.so.1 libx.so.1
  library c/libx.so.1 libx.so.1 -lm
  opener p libx.so.1 "$PWD/a/libx.so.1" -- '-Wl,-rpath,$ORIGIN/c'
  start ./p
}

# A library without a soname was linked by its path: its path is what is needed, and no run path will find another.
needed-by-path() {
  host
  with 'int cuInit(unsigned f) { return 34; }' library "$PWD/stubs/libcuda.so" ''
  cuda_program p "$PWD/stubs/libcuda.so" -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# Two plugins, two copies: the first brings the older one, so the second, which needs the newer, cannot be opened; the first can.
newer-by-a-later-plugin() {
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
  with 'int f_v(void); int plugin(void) { return f_v(); }' library plug/liba.so liba.so old/libv.so.1 '-Wl,-rpath,$ORIGIN/../old'
  with 'int f_w(void); int plugin(void) { return f_w(); }' library plug/libb.so libb.so new/libv.so.1 '-Wl,-rpath,$ORIGIN/../new'
  opener p liba.so libb.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# The plugin needs a version that the program's older copy lacks; its own run path has the newer one, which is not looked at.
newer-than-the-program() {
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
  with 'int f_w(void); int plugin(void) { return f_w(); }' library plug/libplug.so libplug.so new/libv.so.1 '-Wl,-rpath,$ORIGIN/../new'
  opener p libplug.so -- old/libv.so.1 '-Wl,-rpath,$ORIGIN/old:$ORIGIN/plug'
  start ./p
}

# The program has the plugin's directory and the library that calls dlopen has not: it is not found.
not-the-callers-run-path() {
  library plug/libplug.so libplug.so
  with '#include <dlfcn.h>
  int plugin(void) { return dlopen("libplug.so", RTLD_NOW) ? 0 : 9; }' library l/libopens.so libopens.so
  with 'int plugin(void); int run(void) { return plugin(); }' program p l/libopens.so '-Wl,-rpath,$ORIGIN/l:$ORIGIN/plug'
  start ./p
}

# A library that was linked with -z nodlopen can be needed, and not opened.
not-to-be-opened() {
  library plug/libplug.so libplug.so -Wl,-z,nodlopen
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# The other order: the newer copy comes first and serves both.
older-by-a-later-plugin() {
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
  with 'int f_v(void); int plugin(void) { return f_v(); }' library plug/liba.so liba.so old/libv.so.1 '-Wl,-rpath,$ORIGIN/../old'
  with 'int f_w(void); int plugin(void) { return f_w(); }' library plug/libb.so libb.so new/libv.so.1 '-Wl,-rpath,$ORIGIN/../new'
  opener p libb.so liba.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# Nothing fails: the stub that the first plugin brings serves the second, whose own run path leads to the driver.
opened-before-driver() {
  host
  stub stubs/libcuda.so.1
  cuda_library a/libpa.so libpa.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
  cuda_library b/libpb.so libpb.so stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  opener p libpa.so libpb.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
  start ./p
}

# The plugin opens another one when it is loaded, by its own run path; that one needs what is not there.
opened-by-a-plugin() {
  library gone/libgone.so libgone.so
  library inner/libinner.so libinner.so gone/libgone.so
  rm -r gone
  with '#include <dlfcn.h>
  int plugin(void) { return dlopen("libinner.so", RTLD_NOW) ? 0 : 9; }' library plug/libplug.so libplug.so '-Wl,-rpath,$ORIGIN/../inner'
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  because=libgone.so
  start ./p
}

# The plugin that the program opens by name leads to a stub by its own run path.
opens-a-stub() {
  host
  stub stubs/libcuda.so.1
  cuda_library plug/libplug.so libplug.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  start ./p
}

# A runtime that opens libcuda.so.1 by name when it is called: its own run path has no driver link, and the program's does not count.
opens-the-driver() {
  host
  with '#include <dlfcn.h>
  int cudaInit(void) { void *h = dlopen("libcuda.so.1", RTLD_NOW); return h ? 0 : 35; }' library lib/libcudart.so.12 libcudart.so.12
  with 'int cudaInit(void); int run(void) { return cudaInit(); }' program p lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because=libcuda.so.1
  start ./p
}

# dlopen("$ORIGIN/plug/libplug.so"): the loader expands the token by the caller's directory.
origin-in-the-name() {
  library lib/plug/libplug.so libplug.so
  opener lib/p '$ORIGIN/plug/libplug.so'
  start lib/p
}

# A library for i386 lies before the right one: the loader passes over it.
other-class-first() {
  on i386 library a/libplug.so libplug.so
  library b/libplug.so libplug.so
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
  start ./p
}

# liba.so calls itself libb.so: who asks for libb.so later gets it, though a libb.so lies in the run path.
other-soname() {
  library d/liba.so libb.so
  library d/libb.so libb.so -lm
  library f/libplug.so libplug.so d/libb.so '-Wl,-rpath,$ORIGIN/../d'
  opener p liba.so libplug.so -- '-Wl,-rpath,$ORIGIN/d:$ORIGIN/f'
  start ./p
}

# The library is missing; beside the program lie a directory of somebody else's with one of that name, and its own: only its own will do.
others-directory() {
  users
  library app/lib/libx.so.1 libx.so.1
  library aaa/lib/libx.so.1 libx.so.1 -lm
  program app/p app/lib/libx.so.1
  chown -R 65534 aaa
  start app/p
}

# One string ends as the other: the linker keeps one, and a reader of strings sees only the path, or searches c for the name.
path-and-its-own-end() {
  library a/libx.so.1 libx.so.1
  library c/libx.so.1 libx.so.1 -lm
  opener p "$PWD/a/libx.so.1" libx.so.1 -- -O2 '-Wl,-rpath,$ORIGIN/c'
  start ./p
}

# Opened by path, then by the bare name: the file has no soname, so the second search finds the other copy.
path-then-name() {
  library a/libx.so ''
  library b/libx.so '' -lm
  opener p "$PWD/a/libx.so" libx.so -- '-Wl,-rpath,$ORIGIN/b'
  start ./p
}

# Opened by path, then by its soname: the soname matches what is there, and no directory is looked at.
path-then-soname() {
  library a/libx-2.so libx.so.1
  library b/libx.so.1 libx.so.1 -lm
  opener p "$PWD/a/libx-2.so" libx.so.1 -- '-Wl,-rpath,$ORIGIN/b'
  start ./p
}

# Judged alone the plugin finds a damaged copy; the program that opens it has loaded the good one.
program-brings-better-copy() {
  library good/libx.so.1 libx.so.1
  library plug/libplug.so libplug.so good/libx.so.1 '-Wl,-rpath,$ORIGIN/../bad'
  mkdir bad; head -c 200 /dev/zero | tr '\0' x >bad/libx.so.1
  opener p libplug.so -- good/libx.so.1 '-Wl,-rpath,$ORIGIN/good:$ORIGIN/plug'
  start ./p
}

# The plugin's own run path leads to a stub, but the program that opens it has the driver already: nothing is wrong.
program-brings-driver() {
  host
  stub stubs/libcuda.so.1
  cuda_library b/libpb.so libpb.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
  opener p libpb.so -- stubs/libcuda.so.1 '-Wl,-rpath,/run/opengl-driver/lib:$ORIGIN/b'
  start ./p
}

# ctypes opens a library by its path, as Python packages do with their CUDA wheels, so that the next one finds it by its soname.
python-by-path-then-name() {
  library nvidia/lib/libdep.so.1 libdep.so.1
  library plug/libplug.so libplug.so nvidia/lib/libdep.so.1
  python p "ctypes.CDLL(\"$PWD/nvidia/lib/libdep.so.1\", ctypes.RTLD_GLOBAL)" "ctypes.CDLL(\"$PWD/plug/libplug.so\")"
  start ./p
}

# A module of Python's whose library is not there cannot be imported.
python-dependency-missing() {
  library gone/libgone.so.1 libgone.so.1
  extension mod.so gone/libgone.so.1
  rm -r gone
  python p 'import mod'
  start ./p
}

# The plugin has a DT_RUNPATH of its own, for something else: that switches the program's DT_RPATH off for what it needs.
runpath-hides-dt-rpath() {
  library x/libdep.so libdep.so
  library plug/libplug.so libplug.so x/libdep.so '-Wl,-rpath,$ORIGIN'
  opener p libplug.so -- -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN/plug:$ORIGIN/x'
  start ./p
}

# Two trees, each with its plugin, helper and run path, under the same names: the second plugin gets the first tree's helper by soname.
two-versions-of-one-tree() {
  library a/libhelp.so.1 libhelp.so.1
  library b/libhelp.so.1 libhelp.so.1 -lm
  library a/plug.so '' a/libhelp.so.1 '-Wl,-rpath,$ORIGIN'
  library b/plug.so '' b/libhelp.so.1 '-Wl,-rpath,$ORIGIN'
  opener p "$PWD/a/plug.so" "$PWD/b/plug.so"
  start ./p
}
