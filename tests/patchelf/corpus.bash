# shellcheck shell=bash
# The files that the calls are made on: five linkers, eight machines, libraries, programs of either kind.

# corpus DIR: fill DIR/files with them and DIR/libs with directories that hold needed libraries, of this machine and of others.
# What cannot be built here is left out.
corpus() {
  local dir=$1 name triple linker
  mkdir -p "$dir/files" "$dir/libs/own" "$dir/libs/other" "$dir/libs/empty" "$dir/libs/text"
  cat >"$dir/dep.c" <<'C'
int counter = 40;
int value(void) { return counter; }
int second(void) { return 2; }
C
  echo 'LIBDEP_1 { global: value; }; LIBDEP_2 { global: second; counter; local: *; } LIBDEP_1;' >"$dir/dep.map"
  cat >"$dir/main.c" <<'C'
#include <stdio.h>
int value(void);
int second(void);
int main(void) { printf("%d\n", value() + second()); return 0; }
C
  echo 'int value(void); int second(void); int sum(void) { return value() + second(); }' >"$dir/sum.c"
  local paths=-Wl,--enable-new-dtags,-rpath,$dir/libs/empty:$dir/libs/own:\$ORIGIN/../lib:$dir/libs/other
  for linker in bfd gold lld mold; do
    if [[ $linker == lld ]]; then name=ld.lld; elif [[ $linker == mold ]]; then name=mold; else name=ld.$linker; fi
    command -v "$name" >/dev/null || continue
    variant "$dir" "$linker" gcc "-fuse-ld=$linker"
  done
  while read -r name triple; do
    command -v "$triple-gcc" >/dev/null && variant "$dir" "$name" "$triple-gcc"
  done <<'T'
aarch64 aarch64-linux-gnu
armhf arm-linux-gnueabihf
i686 i686-linux-gnu
ppc64le powerpc64le-linux-gnu
riscv64 riscv64-linux-gnu
s390x s390x-linux-gnu
mips64el mips64el-linux-gnuabi64
T
  # Go's own linker makes a program that needs libc where a package asks for it.
  mkdir -p "$dir/go" && (cd "$dir/go" && printf 'module m\n' >go.mod &&
    printf 'package main\nimport ("fmt"; "os/user")\nfunc main() { u, _ := user.Current(); fmt.Println(u != nil) }\n' >main.go &&
    CGO_ENABLED=1 go build -ldflags='-linkmode=internal -s -w' -o "$dir/files/go-program" .) >/dev/null 2>&1
  # What is no ordinary file.
  local source=$dir/files/bfd-lib.so
  strip -o "$dir/files/stripped.so" "$source"
  objcopy --only-keep-debug "$source" "$dir/files/detached.debug"
  gcc -c -o "$dir/files/object.o" "$dir/dep.c"
  gcc -static -o "$dir/files/static" -x c - <<<'int main(void) { return 0; }' 2>/dev/null
  gcc -shared -fPIC -nostdlib -o "$dir/files/alone.so" "$dir/dep.c"
  gcc -shared -fPIC -z execstack -Wl,--disable-new-dtags,-rpath,/old/rpath -o "$dir/files/execstack.so" "$dir/dep.c" 2>/dev/null
  gcc -shared -fPIC -fuse-ld=lld -Wl,-z,nognustack "$paths" -o "$dir/files/no-stack-header.so" "$dir/dep.c" 2>/dev/null
  gcc -no-pie -fuse-ld=lld -Wl,-z,nognustack "$paths" -o "$dir/files/no-stack-header" "$dir/main.c" "$dir/build/lld/libdep.so" 2>/dev/null
  gcc -shared -fPIC -Wl,-soname,value -Wl,-rpath,/r/counter -o "$dir/files/shares-names.so" "$dir/dep.c"
  head -c 3000 "$source" >"$dir/files/truncated.so"
  echo 'a text file, longer than the header of an ELF file, so that nobody takes it for a short one' >"$dir/files/text"
  : >"$dir/files/empty"
  cp "$dir/build/bfd/libdep.so" "$dir/libs/own/"
  for name in aarch64 s390x; do
    [[ -e $dir/build/$name/libdep.so ]] && cp "$dir/build/$name/libdep.so" "$dir/libs/other/" && break
  done
  echo text >"$dir/libs/text/libdep.so"
}

# variant DIR NAME CC [FLAG…]: a library and two programs that need libdep.so's versions. Uses $paths.
variant() {
  local dir=$1 name=$2 cc=$3 at=$1/build/$2 log=$1/build/log
  shift 3
  mkdir -p "$at"
  {
    "$cc" -shared -fPIC "$@" -Wl,-soname,libdep.so -Wl,--version-script="$dir/dep.map" -o "$at/libdep.so" "$dir/dep.c" || return
    "$cc" -shared -fPIC "$@" -Wl,-soname,libsum.so.1 "$paths" -o "$dir/files/$name-lib.so" "$dir/sum.c" "$at/libdep.so"
    "$cc" -pie -fPIE "$@" "$paths" -o "$dir/files/$name-pie" "$dir/main.c" "$at/libdep.so"
    "$cc" -no-pie -fno-pie "$@" -o "$dir/files/$name-no-pie" "$dir/main.c" "$at/libdep.so"
  } 2>>"$log"
}
