# shellcheck shell=bash
# The situations of hwcaps: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# arm64 has no levels, so glibc-hwcaps/x86-64-v2 is nothing there; tls of old it has.
arm64-none() {
  on arm64 library lib/libm2.so.1 libm2.so.1
  on arm64 library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  on arm64 library lib/tls/libm2.so.1 libm2.so.1
  on arm64 program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start qemu-aarch64 ./p
}

# The plain copy is sound, the one for x86-64-v3 needs a library that is not there: the program does not start.
broken-level() {
  processor x86-64-v3
  library gone/libgone.so.1 libgone.so.1
  library lib/libm2.so.1 libm2.so.1
  library lib/glibc-hwcaps/x86-64-v3/libm2.so.1 libm2.so.1 gone/libgone.so.1
  rm -r gone
  program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The cache has a plain copy and one for x86-64-v2 of the same library; the loader prefers the level.
cache-has-levels() {
  writable /usr/local
  library /usr/local/m2/libm2.so.1 libm2.so.1
  library /usr/local/m2/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  cached /usr/local/m2
  program p /usr/local/m2/libm2.so.1
  start ./p
}

# The cache still names the level's copy, whose file was removed since: the loader does not go back to the plain one in the cache.
cache-level-removed() {
  writable /usr/local
  library /usr/local/m2/libm2.so.1 libm2.so.1
  library /usr/local/m2/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  cached /usr/local/m2
  program p /usr/local/m2/libm2.so.1
  rm /usr/local/m2/glibc-hwcaps/x86-64-v2/libm2.so.1
  start ./p
}

# Two directories of the cache, in the second a level: a level wins over an earlier directory in the cache, unlike in a run path.
cache-other-soname() {
  writable /usr/local
  library /usr/local/a/libm2.so.1 libm2.so.1
  library /usr/local/b/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  cached /usr/local/a /usr/local/b
  program p /usr/local/a/libm2.so.1
  start ./p
}

# The first entry has a plain copy, the second one for x86-64-v2: entries come before levels.
directories-before-levels() {
  library a/libm2.so.1 libm2.so.1
  library b/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  program p a/libm2.so.1 -Wl,-rpath,'$ORIGIN/a:$ORIGIN/b'
  start ./p
}

# The driver link itself has a glibc-hwcaps directory, with a driver for x86-64-v3.
driver-link-has-levels() {
  processor x86-64-v3
  host
  driver /run/opengl-driver/lib/glibc-hwcaps/x86-64-v3/libcuda.so.1 0
  cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# An i386 program: its loader of glibc 2.36 knows no levels, but i686 and sse2 of old.
i386-sse2() {
  on i386 library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  on i386 library lib/sse2/libm2.so.1 libm2.so.1
  on i386 library lib/i686/sse2/libm2.so.1 libm2.so.1
  on i386 program p lib/sse2/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start qemu-i386 ./p
}

# LD_LIBRARY_PATH's directory has nothing but a level: it is searched like any other directory, before the run path.
ld-library-path() {
  library lib/libm2.so.1 libm2.so.1
  library env/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  program p lib/libm2.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
  LD_LIBRARY_PATH="$PWD/env" start ./p
}

# A level and an old directory: glibc-hwcaps comes first where the loader knows both.
legacy-after-levels() {
  library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  library lib/tls/libm2.so.1 libm2.so.1
  program p lib/tls/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# LD_HWCAP_MASK=0 takes the processor's features away from the old directories, here the x86_64 after the platform's name, but not tls.
legacy-masked() {
  library lib/libm2.so.1 libm2.so.1
  library lib/tls/libm2.so.1 libm2.so.1
  for platform in x86_64 haswell xeon_phi; do library lib/tls/$platform/x86_64/libm2.so.1 libm2.so.1; done
  program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  LD_HWCAP_MASK=0 start ./p
}

# The old names combine: tls/x86_64 comes before tls and before x86_64.
legacy-nested() {
  library lib/libm2.so.1 libm2.so.1
  library lib/x86_64/libm2.so.1 libm2.so.1
  library lib/tls/libm2.so.1 libm2.so.1
  library lib/tls/x86_64/libm2.so.1 libm2.so.1
  program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The same where tls/ has the only copy.
legacy-tls-alone() {
  library lib/tls/libm2.so.1 libm2.so.1
  program p lib/tls/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# tls/ below an entry: the loaders of glibc up to 2.36 look there first, later ones never.
legacy-tls() {
  library lib/libm2.so.1 libm2.so.1
  library lib/tls/libm2.so.1 libm2.so.1
  program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The run path names the level's directory itself, and that has levels of its own below it.
level-as-entry() {
  library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  library lib/glibc-hwcaps/x86-64-v2/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  program p lib/glibc-hwcaps/x86-64-v2/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib/glibc-hwcaps/x86-64-v2'
  start ./p
}

# LD_HWCAP_MASK=0 concerns the old directories (tls, haswell) only: the level is searched all the same.
mask-without-effect() {
  library lib/libm2.so.1 libm2.so.1
  library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# musl knows no levels and no old directories: the library in them is missing.
musl() {
  on musl library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  on musl library lib/tls/libm2.so.1 libm2.so.1
  on musl program p lib/tls/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# glibc 2.41 searches neither tls nor x86_64: the library there is missing.
new-glibc-legacy() {
  glibc trixie
  library lib/tls/x86_64/libm2.so.1 libm2.so.1
  program p lib/tls/x86_64/libm2.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# glibc 2.41 and a level: tls is not looked at, x86-64-v2 is.
new-glibc-level() {
  glibc trixie
  library lib/tls/libm2.so.1 libm2.so.1
  library lib/libm2.so.1 libm2.so.1
  library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  program p lib/libm2.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# Two levels and a plain copy: the highest that this processor has is taken.
newest-first() {
  processor x86-64-v3
  library lib/libm2.so.1 libm2.so.1
  library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  library lib/glibc-hwcaps/x86-64-v3/libm2.so.1 libm2.so.1
  program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# glibc 2.31 searches tls/x86_64 first of all, where a stub waits.
old-glibc-legacy() {
  glibc bullseye
  driver lib/libcuda.so.1 0
  stub lib/tls/x86_64/libcuda.so.1
  cuda_program p lib/libcuda.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# A program with the loader of glibc 2.31: it knows no glibc-hwcaps, the library is missing.
old-glibc-level() {
  glibc bullseye
  library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  program p lib/glibc-hwcaps/x86-64-v2/libm2.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# glibc 2.31 takes the plain copy where newer ones take the broken one in x86-64-v2.
old-glibc-plain() {
  glibc bullseye
  library lib/libm2.so.1 libm2.so.1
  mkdir -p lib/glibc-hwcaps/x86-64-v2 && : >lib/glibc-hwcaps/x86-64-v2/libm2.so.1
  program p lib/libm2.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# A plugin opened by its path is not looked for in levels; the library that it needs is.
opened-by-path() {
  library lib/libdep.so.1 libdep.so.1
  library lib/glibc-hwcaps/x86-64-v2/libdep.so.1 libdep.so.1
  library lib/plug.so '' lib/libdep.so.1 -Wl,-rpath,'$ORIGIN'
  library lib/glibc-hwcaps/x86-64-v2/plug.so ''
  opener p ./lib/plug.so
  start ./p
}

# The same, but the program has a DT_RPATH: the copy without a run path of its own inherits $ORIGIN/lib and works.
origin-inherited() {
  library lib/libdep.so.1 libdep.so.1
  library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1 lib/libdep.so.1
  program p lib/glibc-hwcaps/x86-64-v2/libm2.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib'
  start ./p
}

# The copy in x86-64-v2 has the run path $ORIGIN, which is its own directory there: its neighbour in lib is not found.
origin-is-the-level() {
  library lib/libdep.so.1 libdep.so.1
  library lib/libm2.so.1 libm2.so.1 lib/libdep.so.1 -Wl,-rpath,'$ORIGIN'
  mkdir -p lib/glibc-hwcaps/x86-64-v2 && cp lib/libm2.so.1 lib/glibc-hwcaps/x86-64-v2/
  program p lib/libm2.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
  start ./p
}

# s390x has levels of its own (z13 to z16), and none of x86-64's.
s390x-levels() {
  on s390x library lib/libm2.so.1 libm2.so.1
  on s390x library lib/glibc-hwcaps/z13/libm2.so.1 libm2.so.1
  on s390x library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  on s390x program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start qemu-s390x ./p
}

# The run path's directory has the driver, its x86-64-v2 directory the stub: the entry looks right and is not.
stub-in-a-level() {
  driver lib/libcuda.so.1 0
  stub lib/glibc-hwcaps/x86-64-v2/libcuda.so.1
  cuda_program p lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The copy in x86-64-v2 is a Git LFS pointer: that ends the search, though the plain copy is sound.
text-in-level() {
  library lib/libm2.so.1 libm2.so.1
  mkdir -p lib/glibc-hwcaps/x86-64-v2 && lfs_pointer >lib/glibc-hwcaps/x86-64-v2/libm2.so.1
  program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# GLIBC_TUNABLES takes AVX2 away: x86-64-v3 is no longer searched, the broken copy there does no harm.
tunables-take-away() {
  processor x86-64-v3
  library lib/libm2.so.1 libm2.so.1
  mkdir -p lib/glibc-hwcaps/x86-64-v3 && : >lib/glibc-hwcaps/x86-64-v3/libm2.so.1
  program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2 start ./p
}

# A level that glibc does not know (x86-64-v9) is no level: the library in it is missing.
unknown-level() {
  library lib/glibc-hwcaps/x86-64-v9/libm2.so.1 libm2.so.1
  program p lib/glibc-hwcaps/x86-64-v9/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The library is nowhere but in glibc-hwcaps/x86-64-v2: who looks at the run path's directory alone misses it.
v2-only() {
  library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  program p lib/glibc-hwcaps/x86-64-v2/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The copy in x86-64-v2 is for arm64: passed over for the plain one.
wrong-machine-in-level() {
  library lib/libm2.so.1 libm2.so.1
  on arm64 library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
  program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}
