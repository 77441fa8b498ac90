# shellcheck shell=bash
# The situations of abis: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# EI_ABIVERSION 1 with the OS ABI "GNU": a version that this loader knows, so the file is loaded.
abi-version-gnu() {
  library odd/libx.so.1 libx.so.1
  patch odd/libx.so.1 7 '\3\1'
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# EI_ABIVERSION 1 with the OS ABI "System V": refused.
abi-version-sysv() {
  library odd/libx.so.1 libx.so.1
  patch odd/libx.so.1 8 '\1'
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# The first copy is arm64's: same class, same byte order, another machine.
arm64-first() {
  on arm64 library arm64/libx.so.1 libx.so.1
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/arm64:$ORIGIN/lib'
  start ./p
}

# An arm64 program whose first directory has the x86-64 copy.
arm64-program() {
  library x86/libx.so.1 libx.so.1
  on arm64 library lib/libx.so.1 libx.so.1
  on arm64 program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/x86:$ORIGIN/lib'
  start qemu-aarch64 ./p
}

# Only EI_DATA says big-endian, the fields are little-endian: the machine is this one, so the loader does not go on.
byte-order-bit-only() {
  library odd/libx.so.1 libx.so.1
  patch odd/libx.so.1 5 '\2'
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# The library was compressed in place (libx.so.1 is gzip data), as some installers leave it until first use.
compressed() {
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  mkdir odd && gzip -nc lib/libx.so.1 >odd/libx.so.1
  start ./p
}

# The detached debug file took the library's name and stands first: header right, contents not there.
debug-file() {
  library lib/libx.so.1 libx.so.1
  mkdir odd && objcopy --only-keep-debug lib/libx.so.1 odd/libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# A directory has the library's name.
directory() {
  library lib/libx.so.1 libx.so.1
  mkdir -p odd/libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# The same file for a musl program: musl does not look at the OS ABI.
freebsd-osabi-musl() {
  on musl library odd/libx.so.1 libx.so.1
  patch odd/libx.so.1 7 '\11'
  on musl program p odd/libx.so.1 -Wl,-rpath,'$ORIGIN/odd'
  start ./p
}

# A copy with the OS ABI of FreeBSD in the first directory.
freebsd-osabi() {
  library odd/libx.so.1 libx.so.1
  patch odd/libx.so.1 7 '\11'
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# The run path's first directory has the i386 copy: glibc passes over it.
i386-first() {
  on i386 library lib32/libx.so.1 libx.so.1
  library lib64/libx.so.1 libx.so.1
  program p lib64/libx.so.1 -Wl,-rpath,'$ORIGIN/lib32:$ORIGIN/lib64'
  start ./p
}

# Only an i386 copy is there: it is not "missing" in the sense that no file has that name.
i386-only() {
  on i386 library lib/libx.so.1 libx.so.1
  library lib64/libx.so.1 libx.so.1
  program p lib64/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
  rm -r lib64
  start ./p
}

# The same two directories for an i386 program: now the 64-bit copy is passed over.
i386-program() {
  library lib64/libx.so.1 libx.so.1
  on i386 library lib32/libx.so.1 libx.so.1
  on i386 program p lib32/libx.so.1 -Wl,-rpath,'$ORIGIN/lib64:$ORIGIN/lib32'
  start qemu-i386 ./p
}

# The same for a plugin: the open fails, the program goes on to the next name.
lfs-pointer-opened() {
  library plugins/b.so ''
  lfs_pointer >plugins/a.so
  opener p ./plugins/a.so ./plugins/b.so
  start ./p
}

# A checkout without Git LFS: the first copy is a pointer of three lines.
lfs-pointer() {
  library real/libx.so.1 libx.so.1
  program p real/libx.so.1 -Wl,-rpath,'$ORIGIN/lib:$ORIGIN/real'
  mkdir lib && lfs_pointer >lib/libx.so.1
  start ./p
}

# The file of that name is a text for the linker, as libx.so often is; here it has the versioned name.
linker-script() {
  library real/libx.so.1 libx.so.1
  program p real/libx.so.1 -Wl,-rpath,'$ORIGIN/lib:$ORIGIN/real'
  mkdir lib && echo "/* GNU ld script */ OUTPUT_FORMAT(elf64-x86-64) GROUP ( $PWD/real/libx.so.1 )" >lib/libx.so.1
  start ./p
}

# A copy with machine 0 and everything else right, such as tools that make objects from nothing leave: passed over.
machine-zero() {
  library odd/libx.so.1 libx.so.1
  patch odd/libx.so.1 18 '\0\0'
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# musl searches LD_LIBRARY_PATH before DT_RPATH; glibc has it the other way round.
musl-environment-before-rpath() {
  on musl library lib/libx.so.1 libx.so.1
  on musl library env/libx.so.1 libx.so.1
  on musl program p lib/libx.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib'
  LD_LIBRARY_PATH=$PWD/env start ./p
}

# musl searches the run paths of all that brought an object in, DT_RUNPATH too: this chain works, with glibc it would not.
musl-inherits-runpath() {
  on musl library lib/libdep.so.1 libdep.so.1
  on musl library lib/libx.so.1 libx.so.1 lib/libdep.so.1
  on musl program p lib/libx.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
  start ./p
}

# A library of a musl program opens a name that its own run path has and the program's has not.
musl-opens-by-program-run-path() {
  because=libplug.so
  on musl library deep/libplug.so libplug.so
  on musl opening lib/libx.so.1 libx.so.1 libplug.so -- -Wl,-rpath,'$ORIGIN/../deep'
  on musl program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The same plugin with musl's libc.so beside it: now glibc loads a second C library into the process.
musl-plugin-finds-musl() {
  on musl library plug.so '' -Wl,-rpath,'$ORIGIN/musl'
  mkdir musl && cp /lib/ld-musl-x86_64.so.1 musl/libc.so
  opener p --lazy ./plug.so
  start ./p
}

# A plugin built with musl needs libc.so; for glibc that is no library, and on Debian libc.so is a text for the linker.
musl-plugin-in-glibc-program() {
  on musl library plug.so ''
  opener p ./plug.so
  start ./p
}

# A musl program with the run path of its libraries.
musl-program() {
  on musl library lib/libx.so.1 libx.so.1
  on musl program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# An i386 copy in the first directory: what glibc passes over ends musl's search.
musl-stops-at-wrong-class() {
  on i386 library lib32/libx.so.1 libx.so.1
  on musl library lib64/libx.so.1 libx.so.1
  on musl program p lib64/libx.so.1 -Wl,-rpath,'$ORIGIN/lib32:$ORIGIN/lib64'
  start ./p
}

# A library that was built for glibc needs libc.so.6, a name that musl takes for itself: the program starts.
musl-takes-glibc-library() {
  library lib/libx.so.1 libx.so.1
  on musl program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# A copy whose header says x86-64 in the other byte order, as a big-endian machine would write it: read here, that is another machine.
other-byte-order-same-machine() {
  library odd/libx.so.1 libx.so.1
  patch odd/libx.so.1 5 '\2'
  patch odd/libx.so.1 18 '\0\76'
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# In one tree an i386 program loads an i386 libdep.so.1; the 64-bit plugin of the 64-bit program lacks its own.
plugin-lacks-what-the-i386-program-has() {
  on i386 library x/libdep.so.1 libdep.so.1
  on i386 program bin/p32 x/libdep.so.1 -Wl,-rpath,'$ORIGIN/../x'
  library y/libdep.so.1 libdep.so.1
  library plug/plug.so '' y/libdep.so.1
  rm y/libdep.so.1
  opener p ./plug/plug.so
  start ./p
}

# The program tries its plugins in order, the first is for i386: that open fails and leaves nothing, the second works.
plugin-of-the-wrong-class-beside() {
  on i386 library plugins/a.so ''
  library plugins/b.so ''
  opener p ./plugins/a.so ./plugins/b.so
  start ./p
}

# The name leads to a position-independent program: it has a dynamic section and cannot be loaded.
program-as-library() {
  library lib/libx.so.1 libx.so.1
  program odd/libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# A relocatable object under the library's name (a failed install step): right machine, wrong type.
relocatable-object() {
  library lib/libx.so.1 libx.so.1
  echo 'int f(void) { return 0; }' >f.c && mkdir odd && gcc -c f.c -o odd/libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
  start ./p
}

# The first copy is for s390x: another machine and the other byte order, which Debian's glibc passes over and the original does not.
s390x-first() {
  on s390x library s390x/libx.so.1 libx.so.1
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/s390x:$ORIGIN/lib'
  start ./p
}

# An s390x program whose first directory has the x86-64 copy: machine and byte order differ.
s390x-program() {
  library x86/libx.so.1 libx.so.1
  on s390x library lib/libx.so.1 libx.so.1
  on s390x program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/x86:$ORIGIN/lib'
  start qemu-s390x ./p
}

# The file was cut off in the middle of its last segment: the header is right, mapping works, and reading what is not there is a bus error.
truncated-segments() {
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
  truncate -s 4096 lib/libx.so.1
  start ./p
}

# The first copy was cut off after 40 bytes by a full disk: the loader stops there.
truncated() {
  library cut/libx.so.1 libx.so.1
  truncate -s 40 cut/libx.so.1
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/cut:$ORIGIN/lib'
  start ./p
}

# The first copy is for x32: machine x86-64, class 32. It is passed over.
x32-first() {
  on x32 library x32/libx.so.1 libx.so.1
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/x32:$ORIGIN/lib'
  start ./p
}
