# shellcheck shell=bash
# Programs whose interpreter is changed, and run: by glibc's and musl's loader here, and under qemu-user.

# interpreters DIR: needs corpus.bash's files in DIR, and $patchelf, the program under test.
interpreters() {
  local dir=$1 name triple emulator
  runs_by_another_path "$dir" x86-64 gcc '' /lib/x86_64-linux-gnu strip
  while read -r name triple emulator; do
    if ! command -v "$triple-gcc" >/dev/null || ! command -v "$emulator" >/dev/null || [[ ! -d /usr/$triple/lib ]]; then
      skip "$name: $triple-gcc, its libc or $emulator is not installed (tests/packages names the packages)"
      continue
    fi
    runs_by_another_path "$dir" "$name" "$triple-gcc" "$emulator" "/usr/$triple/lib" "$triple-strip"
  done <<'T'
aarch64 aarch64-linux-gnu qemu-aarch64
armhf arm-linux-gnueabihf qemu-arm
i686 i686-linux-gnu qemu-i386
ppc64le powerpc64le-linux-gnu qemu-ppc64le
riscv64 riscv64-linux-gnu qemu-riscv64
s390x s390x-linux-gnu qemu-s390x
mips64el mips64el-linux-gnuabi64 qemu-mips64el
T
  if command -v musl-gcc >/dev/null; then
    runs_by_another_path "$dir" musl musl-gcc '' /lib strip
  else
    skip 'musl: musl-gcc is not installed'
  fi
}

# runs_by_another_path DIR NAME CC EMULATOR LIBRARIES STRIP: programs of either kind, which find libdep.so by their run
# path, with the loader under a long path and a short one. LIBRARIES is where the machine's loader and libc are.
runs_by_another_path() {
  local dir=$1 name=$2 cc=$3 emulator=$4 libraries=$5 strip=$6 at=$1/interpreter/$2 kind loader long short said step patchelf=${patchelf:?}
  local -a start=() pie=()
  mkdir -p "$at"
  "$cc" -shared -fPIC -Wl,-soname,libdep.so -o "$at/libdep.so" "$dir/dep.c" 2>"$at/why" || { fail "$name: the library builds"; return; }
  for kind in pie no-pie; do
    pie=("-f$kind")
    [[ $kind == pie ]] && pie=(-fPIE)
    if ! "$cc" "-$kind" "${pie[@]}" -o "$at/prog" "$dir/main.c" "$at/libdep.so" -Wl,-rpath,"$at" 2>"$at/why"; then
      fail "$name: a program ($kind) builds"
      continue
    fi
    loader=$(readelf -lW "$at/prog" | sed -n 's/.*program interpreter: \(.*\)\]$/\1/p')
    [[ -e $libraries/${loader##*/} ]] || libraries=${libraries}64 # mips64el
    loader=$(readlink -f "$libraries/${loader##*/}")
    [[ -z $emulator ]] || start=("$emulator" -E "LD_LIBRARY_PATH=$libraries:${libraries%64}")
    long=$at/a/directory/of/which/no/linker/has/ever/heard/with/a/path/that/is/longer/than/any/that/stands/in/the/file/ld.so
    short=$at/l
    mkdir -p "${long%/*}"
    ln -sf "$loader" "$long"
    ln -sf "$loader" "$short"
    # Longer, then shorter with other changes in one call, then in the room that these left, then after strip.
    for step in "--set-interpreter $long" "--set-interpreter $short --add-rpath $dir --add-needed libc.so.6 --add-needed libdep.so" \
      "--set-rpath $at --set-interpreter $long" strip "--set-interpreter $short" "--set-interpreter $long --add-rpath $long$long"; do
      if [[ $step == strip ]]; then
        "$strip" "$at/prog"
      elif [[ $name == musl && $step == *libc.so.6* ]]; then
        continue
      else
        # shellcheck disable=SC2086 # words
        said=$("$patchelf" $step "$at/prog" 2>&1) || { fail "$name: a program ($kind), $step: $said"; continue 2; }
      fi
      said=$("${start[@]}" "$at/prog" 2>&1)
      [[ $said == 42 ]] || { fail "$name: a program ($kind), $step: says \"$said\""; continue 2; }
      [[ $step != *"$short"* ]] || readelf -lW "$at/prog" | grep -q -F "interpreter: $short]" || { fail "$name: a program ($kind), $step: has another interpreter"; continue 2; }
    done
    pass "$name: a program ($kind) runs by other paths of its loader"
  done
}
