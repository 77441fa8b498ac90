# shellcheck shell=bash
# The situations of stub: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# The run path is in the right order, but this host has no driver link: what is left is the stub.
after-absent-driver() {
  stub lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
  start ./p
}

# The stub directory stands behind the driver link, which has the driver: ugly, and it works on this host.
after-driver() {
  host
  stub lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
  start ./p
}

# The stub directory stands before the driver link in the run path: the best known of all mistakes.
before-driver() {
  host
  stub lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
  start ./p
}

# The library with the stubs is needed by a library, the one with the driver by the program: breadth first, the driver wins.
breadth-first-saves() {
  host
  stub lib/stubs/libcuda.so.1
  library lib/libinner.so.1 libinner.so.1 lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/stubs'
  library lib/libouter.so.1 libouter.so.1 lib/libinner.so.1 -Wl,-rpath,'$ORIGIN'
  cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  caller p lib/libouter.so.1 lib/libgpu.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# Two libraries need libcuda.so.1, the first with the stubs, the second with the driver: who is needed first decides for both.
breadth-first() {
  host
  stub lib/stubs/libcuda.so.1
  library lib/libcudart.so.12 libcudart.so.12 lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/stubs'
  cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  caller p lib/libcudart.so.12 lib/libgpu.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The stubs are in the cache, but the run path's driver link comes before the cache.
cache-behind-driver-link() {
  host
  writable /usr/local
  stub /usr/local/cuda/lib64/stubs/libcuda.so
  cached /usr/local/cuda/lib64/stubs
  cuda_program p /usr/local/cuda/lib64/stubs/libcuda.so -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# -z nodefaultlib passes over the cache's entries in default directories only: the stub of /usr/local/cuda is taken all the same.
cached-despite-nodefaultlib() {
  writable /usr/local
  stub /usr/local/cuda/lib64/stubs/libcuda.so.1
  cached /usr/local/cuda/lib64/stubs
  mkdir lib && ln -s "$(gcc -print-file-name=libc.so.6)" lib/libc.so.6
  cuda_program p /usr/local/cuda/lib64/stubs/libcuda.so.1 -Wl,-z,nodefaultlib,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib'
  start ./p
}

# The run path says "lib", which is a link to the stubs of a toolkit: no component of the entry is called stubs.
directory-behind-symlink() {
  host
  stub cuda/lib64/stubs/libcuda.so.1
  ln -s cuda/lib64/stubs lib
  cuda_program p lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p
}

# The driver link's libcuda.so.1 is a link to a version that an upgrade removed: the loader goes on, to the stub.
driver-file-dangling() {
  mkdir -p /run/opengl-driver/lib && ln -s libcuda.so.535.54.03 /run/opengl-driver/lib/libcuda.so.1
  stub lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
  start ./p
}

# The driver link's libcuda.so.1 is an empty file: the loader does not go on to the stub, it stops.
driver-file-empty() {
  mkdir -p /run/opengl-driver/lib && : >/run/opengl-driver/lib/libcuda.so.1
  stub lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
  start ./p
}

# The driver link leads to a driver that was removed; LD_LIBRARY_PATH of a development shell still holds the stubs.
driver-link-dangling() {
  ln -s /run/gone-driver /run/opengl-driver
  stub sdk/stubs/libcuda.so.1
  cuda_program p sdk/stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  LD_LIBRARY_PATH="$PWD/sdk/stubs" start ./p
}

# The driver link holds the 32-bit driver only: a 64-bit program passes over it and takes the stub behind it.
driver-of-32-bit-only() {
  on i386 host
  stub lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
  start ./p
}

# An ordinary library directory holds libcuda.so.1 as a link to the toolkit's stub, as some Docker images make it for linking.
file-behind-symlink() {
  host
  stub cuda/lib64/stubs/libcuda.so
  mkdir lib && ln -s ../cuda/lib64/stubs/libcuda.so lib/libcuda.so.1
  cuda_program p lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p
}

# The first entry holds a toolkit's libcuda.so.1 for arm64, so the second, a stub, is taken before the driver.
first-copy-of-another-machine() {
  host
  on arm64 driver sdk/lib/libcuda.so.1 0
  stub sdk/x86/stubs/libcuda.so.1
  cuda_program p sdk/x86/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/sdk/lib:$ORIGIN/sdk/x86/stubs:/run/opengl-driver/lib'
  start ./p
}

# A library without a run path needs the driver; it inherits the program's DT_RPATH, where the stubs come first.
from-program-rpath() {
  host
  stub lib/stubs/libcuda.so.1
  cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1
  caller p lib/libgpu.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib:$ORIGIN/lib/stubs:/run/opengl-driver/lib'
  start ./p
}

# The stubs stand alone in a DT_RUNPATH; LD_LIBRARY_PATH with the driver link is searched before, and the program is right.
ld-library-path-saves() {
  host
  stub lib64/stubs/libcuda.so.1
  cuda_program p lib64/stubs/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib64/stubs'
  LD_LIBRARY_PATH=/run/opengl-driver/lib start ./p
}

# The run path is right; a user's LD_LIBRARY_PATH, left over from building, names the stubs and wins over DT_RUNPATH.
ld-library-path() {
  host
  stub lib64/stubs/libcuda.so.1
  cuda_program p lib64/stubs/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib
  LD_LIBRARY_PATH="$PWD/lib64/stubs" start ./p
}

# One library needs the stub by path, the next needs libcuda.so.1 and has the driver link: the stub's soname answers first.
needed-by-path-answers-name() {
  host
  library lib/stubs/libcuda.so "$PWD/lib/stubs/libcuda.so"
  library libold.so.1 libold.so.1 lib/stubs/libcuda.so
  stub lib/stubs/libcuda.so
  cuda_library libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so -Wl,-rpath,/run/opengl-driver/lib
  caller p libold.so.1 libgpu.so.1 -Wl,-rpath,'$ORIGIN'
  start ./p
}

# The stub had no soname when it was linked, so DT_NEEDED holds its path: no run path has a say.
needed-by-path() {
  host
  driver lib/stubs/libcuda.so 34 -Wl,-soname,lib/stubs/libcuda.so
  cuda_program p lib/stubs/libcuda.so -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# The stub directory holds NVML's stub alone: libcuda is the driver's, libnvidia-ml is not.
of-nvml-alone() {
  host
  with 'int nvmlInit_v2(void) { return 0; }' library /run/opengl-driver/lib/libnvidia-ml.so.1 libnvidia-ml.so.1
  with 'int nvmlInit_v2(void) { return 9; }' library lib/stubs/libnvidia-ml.so.1 libnvidia-ml.so.1
  with 'int cuInit(int), nvmlInit_v2(void); int run(void) { return cuInit(0) + nvmlInit_v2(); }' program p /run/opengl-driver/lib/libcuda.so.1 lib/stubs/libnvidia-ml.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
  start ./p
}

# stubReplaceForChecks as it looks from outside: links by soname to stubs, offered by LD_LIBRARY_PATH where there is no driver.
offered-for-checks() {
  stub cuda/lib64/stubs/libcuda.so
  mkdir offer && ln -s ../cuda/lib64/stubs/libcuda.so offer/libcuda.so.1
  cuda_program p offer/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  LD_LIBRARY_PATH="$PWD/offer" start ./p
}

# The program has the driver link; a library with the stubs in its own run path calls dlopen: the caller's list is searched.
opened-by-library() {
  host
  stub lib/stubs/libcuda.so.1
  opening libgpu.so.1 libgpu.so.1 libcuda.so.1 -- -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
  opener p --entry cuInit libcuda.so.1 -- libgpu.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN:/run/opengl-driver/lib'
  start ./p
}

# numba's list of names: libcuda.so first, then libcuda.so.1. The driver has the second name only, the stubs the first.
opened-without-number() {
  host
  stub lib/stubs/libcuda.so
  opener p --entry cuInit libcuda.so libcuda.so.1 -- -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
  start ./p
}

# A plugin's run path has the stubs only; the program has the driver already, whose soname answers the plugin's need.
plugin-after-driver() {
  host
  stub lib/stubs/libcuda.so.1
  library plug.so '' lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs'
  opener p --entry cuInit ./plug.so -- /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# The same plugin is opened first, libcuda.so.1 by name afterwards: now the stub answers for the driver.
plugin-before-driver() {
  host
  stub lib/stubs/libcuda.so.1
  library plug.so '' lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs'
  opener p --entry cuInit ./plug.so libcuda.so.1 -- -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# The plugin that brings the stub lacks another library: its open fails and takes the stub with it; the driver comes next.
plugin-fails-before-driver() {
  host
  stub lib/stubs/libcuda.so.1
  library gone/libgone.so.1 libgone.so.1
  library plug.so '' lib/stubs/libcuda.so.1 gone/libgone.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs'
  rm gone/libgone.so.1
  opener p --entry cuInit ./plug.so libcuda.so.1 -- -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# Two plugins bring the stub; the second fails, but the first holds the stub, so the driver is never looked for.
plugin-fails-stub-held() {
  host
  stub lib/stubs/libcuda.so.1
  library gone/libgone.so.1 libgone.so.1
  library good.so '' lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs'
  library bad.so '' lib/stubs/libcuda.so.1 gone/libgone.so.1 -Wl,-rpath,/run/opengl-driver/lib
  rm gone/libgone.so.1
  opener p --entry cuInit ./good.so ./bad.so libcuda.so.1 -- -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# LD_PRELOAD names the stub by its path: its soname answers for the driver in whatever comes later.
preloaded-by-path() {
  host
  stub lib/stubs/libcuda.so
  cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  LD_PRELOAD="$PWD/lib/stubs/libcuda.so" start ./p
}

# The program's DT_RPATH begins with the stubs, but the library that needs the driver has a DT_RUNPATH: it inherits nothing.
program-rpath-not-inherited() {
  host
  stub lib/stubs/libcuda.so.1
  cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib
  caller p lib/libgpu.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib/stubs:$ORIGIN/lib'
  start ./p
}

# The program's DT_RUNPATH has the driver link; the library that needs the driver has none, and gets it from nowhere.
program-runpath-not-inherited() {
  host
  stub lib/stubs/libcuda.so.1
  cuda_library lib/libgpu.so.1 libgpu.so.1 lib/stubs/libcuda.so.1
  caller p lib/libgpu.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p
}

# LD_LIBRARY_PATH names the driver, which people are told to do; the stubs stand in a DT_RPATH, which is searched before.
rpath-beats-ld-library-path() {
  host
  stub lib64/stubs/libcuda.so.1
  cuda_program p lib64/stubs/libcuda.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib64/stubs'
  LD_LIBRARY_PATH=/run/opengl-driver/lib start ./p
}

# The stub directory that stands first holds a 32-bit stub: it harms no 64-bit program.
stub-of-32-bit-first() {
  host
  on i386 stub lib/stubs/libcuda.so.1
  cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
  start ./p
}

# The directory is called stubs, stands first, and holds nothing but a link to this host's driver: the process is right.
stubs-directory-links-the-driver() {
  host
  mkdir -p lib/stubs && ln -s /run/opengl-driver/lib/libcuda.so.1 lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
  start ./p
}

# The entry is spelled with $LIB, which only the loader expands: on Debian the stubs lie in lib/x86_64-linux-gnu/stubs.
token-lib() {
  host
  stub sdk/lib/x86_64-linux-gnu/stubs/libcuda.so.1
  cuda_program p sdk/lib/x86_64-linux-gnu/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/sdk/${LIB}/stubs:/run/opengl-driver/lib'
  start ./p
}

# ld.so.conf names /usr/local/cuda/lib64/stubs: ldconfig makes libcuda.so.1 beside the stub, and no driver link is in the run path.
toolkit-in-the-cache() {
  writable /usr/local
  stub /usr/local/cuda/lib64/stubs/libcuda.so
  cached /usr/local/cuda/lib64/stubs
  cuda_program p /usr/local/cuda/lib64/stubs/libcuda.so
  start ./p
}

# The toolkit's stub directory holds libcuda.so without a number, and the program needs libcuda.so.1: the stub is not found.
unversioned-file-only() {
  host
  stub lib/stubs/libcuda.so
  cuda_program p lib/stubs/libcuda.so -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
  start ./p
}

# The run path ends in a colon, as nixpkgs' driver hook once left it, on a host without a driver: the working directory has a stub.
working-directory() {
  stub libcuda.so.1
  cuda_program p libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib:
  start ./p
}
