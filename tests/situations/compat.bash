# shellcheck shell=bash
# The situations of compat: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# The driver hook ran last and put the driver link in front: compat is of no use, and the driver too old for the program (35).
after-driver() {
  host_driver 535.161.08 35
  compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/cuda_compat/compat'
  start ./p
}

# addCudaCompatRunpath alone: the run path has compat and nothing behind it; the compat library needs nothing of the driver.
alone() {
  host_driver 535.161.08 0
  compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat'
  start ./p
}

# As NVIDIA means it: the compat package is newer than the driver and stands first.
before-driver() {
  host_driver 535.161.08 0
  compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# compat/libcuda.so.1 is a link to a version that is not there: passed over without a word.
broken-link() {
  host_driver 535.161.08 0
  mkdir -p cuda_compat/compat && ln -s libcuda.so.550.54.14 cuda_compat/compat/libcuda.so.1
  cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# Newer than the driver, but the note's list lacks this driver's branch (545, no production branch): 803 again.
driver-not-in-its-list() {
  host_driver 545.23.08 0
  compat cuda_compat/compat/libcuda.so.1 803 12.4 '[450,470,525,535]'
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# The compat directory is there and empty (a package for another system): the driver is loaded.
empty-directory() {
  host_driver 535.161.08 0
  mkdir -p cuda_compat/compat
  cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# The compat libcuda opens its PTX compiler by name and has no run path: the compiler beside it is not found, the host's cache has none.
its-own-compiler() {
  because=libnvidia-ptxjitcompiler.so.1
  host_driver 535.161.08 0
  with 'void *dlopen(const char *, int); __attribute__((constructor)) static void start(void) { dlopen("libnvidia-ptxjitcompiler.so.1", 2); }' \
    compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
  library cuda_compat/compat/libnvidia-ptxjitcompiler.so.1 libnvidia-ptxjitcompiler.so.1
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# A Jetson without a driver link: the driver lies in tegra's directory, which LD_LIBRARY_PATH names; it wins over compat's DT_RUNPATH.
jetson-tegra-directory() {
  on arm64 library tegra/libnvrm_gpu.so libnvrm_gpu.so
  on arm64 driver tegra/libcuda.so.1 0 tegra/libnvrm_gpu.so
  on arm64 compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' tegra/libnvrm_gpu.so
  on arm64 cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  LD_LIBRARY_PATH=$PWD/tegra start qemu-aarch64 ./p
}

# A Jetson: driver libraries of L4T in the driver link, compat for CUDA 12.2 patched with the driver link, all for arm64.
jetson() {
  on arm64 host_driver 35.4.1 0
  on arm64 library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
  on arm64 compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so -Wl,-rpath,/run/opengl-driver/lib
  on arm64 cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start qemu-aarch64 ./p
}

# libcuda is the driver's, the PTX compiler, which only compat has here, is compat's: what it compiles the driver refuses (218).
mixed-halves() {
  host_driver 535.161.08 0
  compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
  with 'int cuInit(int f) { return 218; }' library cuda_compat/compat/libnvidia-ptxjitcompiler.so.1 libnvidia-ptxjitcompiler.so.1
  opener p --entry cuInit libcuda.so.1 libnvidia-ptxjitcompiler.so.1 -- -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/cuda_compat/compat'
  start ./p
}

# An image of NVIDIA's sets LD_LIBRARY_PATH to its compat directory: it wins over the run path's driver link, and is too old.
of-a-container() {
  host_driver 580.95.05 0
  writable /usr/local
  compat /usr/local/cuda/compat/lib.real/libcuda.so.1 803 12.2 '[450,470,525]'
  ln -s lib.real /usr/local/cuda/compat/lib
  cuda_program p /usr/local/cuda/compat/lib/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib
  LD_LIBRARY_PATH=/usr/local/cuda/compat/lib start ./p
}

# The compat package in the run path is Jetson's, for arm64: a program of this machine passes over it.
of-another-machine() {
  host_driver 535.161.08 0
  on arm64 compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
  cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# The host has cuda-compat installed in /usr/local/cuda/compat and in ld.so.conf; the program asks for the driver link only.
of-the-host-in-the-cache() {
  host_driver 535.161.08 0
  writable /usr/local
  compat /usr/local/cuda-12.4/compat/libcuda.so.1 0 12.4 '[470,535]'
  cached /usr/local/cuda-12.4/compat
  cuda_program p /usr/local/cuda-12.4/compat/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# The host's compat directory is in the cache and there is no driver link at all: the cache gives compat.
of-the-host-is-all() {
  writable /usr/local
  compat /usr/local/cuda-12.4/compat/libcuda.so.1 0 12.4 '[470,535]'
  cached /usr/local/cuda-12.4/compat
  cuda_program p /usr/local/cuda-12.4/compat/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# The older compat package stands behind the driver link and harms nobody.
older-behind-driver() {
  host_driver 580.95.05 0
  compat cuda_compat/compat/libcuda.so.1 803 12.2 '[450,470,525]'
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/cuda_compat/compat'
  start ./p
}

# The compat package is older than the host's driver and stands first: cuInit says 803 (803 % 256 is 35).
older-than-driver() {
  host_driver 580.95.05 0
  compat cuda_compat/compat/libcuda.so.1 803 12.2 '[450,470,525]'
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# A directory called compat without a libcuda.so.1: other libraries (an older API) live there and must stay reachable.
ordinary-directory-called-compat() {
  host_driver 535.161.08 0
  library app/compat/libold.so.1 libold.so.1
  cuda_program p app/compat/libold.so.1 /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/app/compat'
  start ./p
}

# The same package with the driver link in its own run path, as nixpkgs' build leaves it.
patched() {
  host_driver 35.4.1 0
  library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
  compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so -Wl,-rpath,/run/opengl-driver/lib
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# The program has the driver; a plugin's run path begins with compat: the soname answers, compat is not loaded.
plugin-after-driver() {
  host_driver 535.161.08 0
  compat cuda_compat/compat/libcuda.so.1 803 12.2 '[470]'
  library plug.so '' cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat'
  opener p --entry cuInit ./plug.so -- /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# Somebody took the stub for compat's library: compat/libcuda.so.1 is a link into the stubs and stands first.
stub-inside() {
  host_driver 535.161.08 0
  stub cuda/lib64/stubs/libcuda.so
  mkdir -p cuda_compat/compat && ln -s ../../cuda/lib64/stubs/libcuda.so cuda_compat/compat/libcuda.so.1
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# Two compat packages in one run path, of CUDA 12.2 and 12.4: the first one decides, and it is the one that does not help.
two() {
  host_driver 545.23.08 0
  compat a/compat/libcuda.so.1 803 12.2 '[470,535]'
  compat b/compat/libcuda.so.1 0 12.4 '[470,535,545]'
  cuda_program p b/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/a/compat:$ORIGIN/b/compat:/run/opengl-driver/lib'
  start ./p
}

# The unpatched compat library comes second: the program needs libnvrm_gpu.so itself, so it is there by then.
unpatched-found-before() {
  host_driver 35.4.1 0
  library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
  compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so
  cuda_program p cuda_compat/compat/libcuda.so.1 /run/opengl-driver/lib/libnvrm_gpu.so -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# The unpatched compat library in a program with an old DT_RPATH: it inherits the driver link, and the process is right.
unpatched-inherits-rpath() {
  host_driver 35.4.1 0
  library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
  compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# The unpatched compat library fails to open; the driver, then opened by its path, is loaded: nothing of compat is left.
unpatched-opened-then-by-path() {
  host_driver 35.4.1 0
  library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
  compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so
  opener p --entry cuInit libcuda.so.1 /run/opengl-driver/lib/libcuda.so.1 -- -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# The unpatched compat library is opened by name: the open fails whole, and the driver behind it is not tried.
unpatched-opened() {
  host_driver 35.4.1 0
  library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
  compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so
  opener p --entry cuInit libcuda.so.1 -- -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}

# The compat package was not patched: its libcuda needs libnvrm_gpu.so of the driver and has no run path of its own.
unpatched() {
  host_driver 35.4.1 0
  library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
  compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so
  cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
  start ./p
}
