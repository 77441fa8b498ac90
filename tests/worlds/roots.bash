# shellcheck shell=bash
# What tests/worlds enters: roots made from this machine's files and small programs. Source this with $work, $here, $bin and $version set.
# shellcheck disable=SC2016,SC2034,SC2317  # $ORIGIN is the loader's; run reads the variables, and calls the worlds by name
: "${work:?}" "${here:?}" "${bin:?}" "${version:=}" "${world:=}"

link=/run/opengl-driver/lib
uv_python=.local/share/uv/python/cpython-3.12.7-linux-x86_64-gnu
paths() { # /nix, or Guix's /gnu
  searched=$1/glibc-of-nix/lib # a link to glibc's, which is what nixpkgs' loader searches
  local s=$1/store/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa # all but the last of a store path's 32 digits
  glibc=${s}1-glibc-2.36 cxx=${s}2-gcc-12-lib stubs=${s}3-cuda_cudart-12-stubs package=${s}4-train
  drivers=${s}5-graphics-drivers compat=${s}6-cuda_compat stub_ld=${s}7-stub-ld nix_ld=${s}8-nix-ld
  shell=${s}9-shell newer=${s}a-newer list=${s}b-libraries profile=${s}c-profile
  loader=$glibc/lib/ld-linux-x86-64.so.2
  train=$package/bin/train opener=$package/bin/opener
}
paths /nix

# libraries, programs
so() { gcc -shared -fPIC -O1 -Wl,-soname,"$(basename "$1")" -o "$@"; }
nix_program() { gcc -O1 -Wl,--enable-new-dtags,--allow-shlib-undefined,--no-as-needed "-Wl,--dynamic-linker=$loader,-rpath,$1" -o "${@:2}"; } # RUNPATH OUT …
static() { # OUT SOURCE: static-PIE by musl, which a loader's place can hold
  local at
  at=/usr/lib/$(uname -m)-linux-musl
  gcc -fPIE -Os -isystem "${at/lib/include}" -nostdinc -nostdlib -static-pie -Wl,--no-dynamic-linker -o "$1" \
    "$at/rcrt1.o" "$at/crti.o" "$2" "$at/libc.a" "$(gcc -print-libgcc-file-name)" "$at/crtn.o"
}
driver_into() { # DIR: the driver's libraries, as its installer names them
  local l
  mkdir -p "$1"
  for l in cuda nvidia-ml nvidia-ptxjitcompiler; do
    cp "$work/parts/lib$l.so.1" "$1/lib$l.so.$version"
    ln -sf "lib$l.so.$version" "$1/lib$l.so.1"
  done
}

patch_environment() { # LIST: the program as lib.patchEnvironment makes it
  cat - "$here/../../nix/patch-environment.bash" <<END
#!$shell/bin/bash
set -o errexit -o nounset -o pipefail
export PATH="/tools:$shell/bin:\$PATH"
libraries=$1
elsewhere=/none
store=/nix/store
usual=(.venv node_modules)
given=(--tool=autoAddDriverRunpath)
driver=yes
END
}

# make_parts makes $work/store, what Nix has, $work/home, what the user has, and the programs of the rows.
make_parts() (
  set -e
  s=$work/store
  at() { mkdir -p "$s/$(dirname "${1#/nix/store/}")" && echo "$s/${1#/nix/store/}"; }
  mkdir -p "$work/parts" "$work/tools" "$work/home"
  musl-gcc -static -O1 -o "$work/enter" "$here/enter.c"
  static "$work/parts/nix-ld" "$here/nix-ld.c"
  musl-gcc -static -Os -o "$work/parts/stub-ld" "$here/stub-ld.c"
  cp "$bin"/{stubReplace,autoAddDriverRunpath,autoPatchelf,runpath,hostDriver} "$work/tools/"
  so "$work/parts/libcuda.so.1" "$here/driver.c"
  for l in nvidia-ml nvidia-ptxjitcompiler; do echo 'int answer(void) { return 42; }' | so "$work/parts/lib$l.so.1" -x c -; done

  # glibc, and gcc's libraries as nixpkgs has them: they name their own directory and glibc's.
  mkdir -p "$s/${glibc##*/}/lib" "$s/${cxx##*/}/lib"
  for l in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0; do cp -L "$(gcc -print-file-name=$l)" "$s/${glibc##*/}/lib/"; done
  python3 "$here/loader.py" "$(gcc -print-file-name=ld-linux-x86-64.so.2)" "$searched/" "$(at "$loader")"
  chmod 755 "$(at "$loader")"
  for l in libstdc++.so.6 libgcc_s.so.1; do
    cp -L "$(gcc -print-file-name=$l)" "$s/${cxx##*/}/lib/"
    patchelf --set-rpath "$cxx/lib:$glibc/lib" "$s/${cxx##*/}/lib/$l"
  done
  echo 'int cuInit(unsigned f) { return 34; }' | so "$(at "$stubs/lib/stubs/libcuda.so")" -x c - -Wl,-soname,libcuda.so.1
  ln -s libcuda.so "$(at "$stubs/lib/stubs/libcuda.so.1")"
  echo 'int cuInit(unsigned f) { return 803; }' | so "$(at "$compat/compat/libcuda.so.470.57.02")" -x c - -Wl,-soname,libcuda.so.1
  ln -s libcuda.so.470.57.02 "$(at "$compat/compat/libcuda.so.1")"
  driver_into "$s/${drivers##*/}/lib"
  for l in "$s/${drivers##*/}"/lib/*.so."$version"; do patchelf --set-rpath "$drivers/lib" "$l"; done
  # A library of a newer nixpkgs, whose glibc the Python does not have.
  echo 'GLIBC_2.99 { fresh; };' >"$work/parts/newer.map"
  echo 'int fresh(void) { return 1; }' | so "$(at "$newer/glibc/libc.so.6")" -x c - -nostdlib -Wl,--version-script,"$work/parts/newer.map"
  echo 'int fresh(void); int answer(void) { return fresh(); }' |
    so "$(at "$newer/lib/libstdc++.so.6")" -nostdlib "-Wl,-rpath,$newer/glibc" -x c - -x none "$s/${newer##*/}/glibc/libc.so.6"
  # nix run .#patch-environment, with what is around the program in nixpkgs: bash, coreutils and grep of the store, and an
  # nix-store that makes roots.
  for l in bash rm ln grep; do
    install -D -m 755 "$(type -P "$l")" "$(at "$shell/bin/$l")"
    patchelf --set-interpreter "$loader" --set-rpath "$shell/lib:$glibc/lib" "$s/${shell##*/}/bin/$l"
    ldd "$(type -P "$l")" | awk '/=> \// { print $3 }' | while read -r p; do
      [[ -e $s/${glibc##*/}/lib/${p##*/} ]] || install -D "$p" "$(at "$shell/lib/${p##*/}")"
    done
  done
  printf '%s\n' "#!$shell/bin/bash" 'ln -sfn "$2" "$4"' >"$s/${shell##*/}/bin/nix-store"
  echo "$cxx/lib" >"$(at "$list")"
  echo "$newer/lib" >"$(at "$list-newer")"
  patch_environment "$list" >"$work/tools/patch-environment"
  patch_environment "$list-newer" >"$work/tools/patch-environment-newer"
  chmod +x "$s/${shell##*/}/bin/nix-store" "$work"/tools/patch-environment*
  cp "$work/parts/stub-ld" "$(at "$stub_ld")"
  cp "$work/parts/nix-ld" "$(at "$nix_ld/bin/nix-ld")"
  cuda=("$here/program.c" -DNEEDS_DRIVER "$s/${stubs##*/}/lib/stubs/libcuda.so")
  nix_program "$link:$glibc/lib" "$(at "$train")" "${cuda[@]}"
  nix_program "$glibc/lib" "$(at "$opener")" "$here/program.c"
  nix_program "$glibc/lib" "$(at "$package/bin/sh")" -x c - <<<'int main(void) { return 0; }'
  chmod -R a-w "$s"/*
  find "$s" -exec touch -h -d @1 {} +

  # What was built, by hand, and a virtual environment.
  h=$work/home
  mkdir -p "$h"/built/{bin,lib} "$h"/.venv/{bin,lib/python3/site-packages/{ext,ext.libs}}
  nix_program "$stubs/lib/stubs:$glibc/lib" "$h/built/bin/stubbed" "${cuda[@]}"
  nix_program "$glibc/lib" "$h/built/bin/unlinked" "${cuda[@]}"
  nix_program "$compat/compat:$link:$glibc/lib" "$h/built/bin/compat" "${cuda[@]}"
  gpu_code 70 >"$work/parts/one.s"
  gpu_code 70 90 >"$work/parts/two.s"
  echo 'int answer(void) { return 7; }' >"$work/parts/answer.c"
  so "$h/built/lib/libkernels.so" "$work/parts/answer.c" "$work/parts/one.s"
  so "$h/built/lib/libtwo.so" "$work/parts/answer.c" "$work/parts/two.s"
  so "$h/built/lib/libstack.so" "$work/parts/answer.c" -Wl,-z,execstack
  so "$h/built/lib/libkept.so" "$work/parts/answer.c" "-Wl,-rpath,$cxx/lib"
  nix_program "$link:\$ORIGIN/../lib:$glibc/lib" "$h/built/bin/gpu" "${cuda[@]}" "$h/built/lib/libkernels.so"
  printf '#include <string>\nextern "C" int text() { return std::to_string(123).size(); }\nextern "C" int answer() { return text(); }\n' >"$work/parts/text.cc"
  g++ -shared -fPIC -O1 -Wl,-soname,libtext.so "$work/parts/text.cc" -o "$h/.venv/lib/python3/site-packages/ext.libs/libtext.so" -lm
  printf 'extern "C" int text(); extern "C" int answer() { return text(); }\n' >"$work/parts/ext.cc"
  g++ -shared -fPIC -O1 -Wl,--no-as-needed,--disable-new-dtags,-rpath,'$ORIGIN/../ext.libs' "$work/parts/ext.cc" \
    "$h/.venv/lib/python3/site-packages/ext.libs/libtext.so" -o "$h/.venv/lib/python3/site-packages/ext/_ext.so"
  ln -s "$opener" "$h/.venv/bin/python"
  gcc -O1 -o "$h/.venv/bin/tool" -x c - <<<'#include <stdio.h>
    int main(void) { puts("a tool of a wheel"); return 0; }'
  # What conda makes: its libraries by a DT_RPATH of its Python, which the wheels of pip inherit.
  mkdir -p "$h"/conda/{bin,lib/python3/site-packages}
  gcc -O1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' -o "$h/conda/bin/python" "$here/program.c"
  for l in libstdc++.so.6 libgcc_s.so.1; do cp -L "$(gcc -print-file-name=$l)" "$h/conda/lib/"; done
  cp "$h/.venv/lib/python3/site-packages/ext.libs/libtext.so" "$h/conda/lib/python3/site-packages/_text.so"
  # What uv makes with a Python of its own: that lies outside of the environment, and asks for the distributions' loader.
  mkdir -p "$h"/{"$uv_python"/bin,uv/.venv/bin,uv/.venv/lib/python3.12/site-packages}
  gcc -O1 -o "$h/$uv_python/bin/python3.12" "$here/program.c"
  ln -s "/home/me/$uv_python/bin/python3.12" "$h/uv/.venv/bin/python"
  echo "home = /home/me/$uv_python/bin" >"$h/uv/.venv/pyvenv.cfg"
  cp "$h/.venv/lib/python3/site-packages/ext.libs/libtext.so" "$h/uv/.venv/lib/python3.12/site-packages/_text.so"
  printf 'import ctypes\nlib = ctypes.CDLL("libnvidia-ml.so.1")\n' >"$h/.venv/lib/python3/site-packages/pynvml.py"
)

# base: $world with what every host has, and Nix.
base() {
  r=$work/$world
  mkdir -p "$r"/{bin,dev,proc,run,tmp,etc,usr/lib,var/lib,home,tools,nix/store}
  chmod 1777 "$r/tmp"
  : >"$r/dev/null"
  cp -al "$work/tools/." "$r/tools/"
  cp -a "$work/store/." "$r/nix/store/"
  ln -s "$glibc" "$r/nix/${searched:5:12}"
  printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/home/me:/bin/sh\n' >"$r/etc/passwd"
}
# distribution DIR: glibc in a distribution's directory of libraries, with the loader at its usual place and a cache.
distribution() {
  local l
  mkdir -p "$r/$1" "$r/lib64"
  for l in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0; do cp -L "$(gcc -print-file-name=$l)" "$r/$1/"; done
  cp -L "$(gcc -print-file-name=ld-linux-x86-64.so.2)" "$r/$1/"
  [[ -e $r/lib64/ld-linux-x86-64.so.2 ]] || ln -s "/$1/ld-linux-x86-64.so.2" "$r/lib64/ld-linux-x86-64.so.2"
  gcc -O1 -o "$r/bin/sh" -x c - <<<'int main(void) { return 0; }'
  gcc -O1 -o "$r/bin/python" "$here/program.c"
  echo "/$1" >"$r/etc/ld.so.conf"
}
cached() { ldconfig -X -r "$r" 2>/dev/null; }

nixos() {
  base
  mkdir -p "$r/lib64"
  : >"$r/etc/NIXOS"
  ln -s "$package/bin/sh" "$r/bin/sh"
  ln -s "$drivers" "$r/run/opengl-driver"
}
world_nixos() {
  nixos
  ln -s "$stub_ld" "$r/lib64/ld-linux-x86-64.so.2"
}
world_nix-ld() {
  nixos
  ln -s "$nix_ld/bin/nix-ld" "$r/lib64/ld-linux-x86-64.so.2"
  mkdir -p "$r/run/current-system/sw/share/nix-ld/lib"
  ln -s "$loader" "$r/run/current-system/sw/share/nix-ld/lib/ld.so"
  ln -s "$glibc/lib/libc.so.6" "$r/run/current-system/sw/share/nix-ld/lib/libc.so.6"
}
world_fhs() { # nixpkgs' buildFHSEnv on NixOS: links in /usr, and a cache for Nix's loader, which is in the usual place too
  nixos
  mkdir -p "$r/usr/lib64"
  local l
  for l in "$r$glibc"/lib/* "$r$cxx"/lib/*; do ln -sf "${l#"$r"}" "$r/usr/lib64/"; done
  ln -s "$loader" "$r/lib64/ld-linux-x86-64.so.2"
  echo /usr/lib64 >"$r/etc/ld.so.conf"
  ldconfig -X -r "$r" -C /nix/ld.so.cache 2>/dev/null
}
world_guix() { # Guix System with nonguix: no loader at the usual place, no cache, and the driver in the system's profile
  base
  ln -s "$package/bin/sh" "$r/bin/sh"
  mkdir -p "$r/run/current-system" "$r/var/guix/profiles/per-user/me" "$r$profile/bin"
  ln -s "$drivers" "$r/run/current-system/profile"
  ln -s "$train" "$r$profile/bin/train"
  ln -s "$profile" "$r/var/guix/profiles/per-user/me/guix-profile"
  # Its store has a name of the same length.
  home=$work/home-guix
  cp -a "$work/home" "$home"
  ln -s /var/guix/profiles/per-user/me/guix-profile "$home/.guix-profile"
  rm "$r"/tools/patch-environment* && cp "$work"/tools/patch-environment* "$r/tools/"
  mv "$r/nix" "$r/gnu"
  local f
  find "$r/gnu" "$home" "$r/tools" "$r/run" "$r/bin" "$r/var" -type l -lname '/nix/*' | while read -r f; do
    ln -sfn "/gnu$(readlink "$f" | cut -c 5-)" "$f"
  done
  grep -r -l -F -e /nix/ "$r/gnu" "$home" "$r"/tools/patch-environment* | xargs sed -i 's|/nix/|/gnu/|g'
  chmod -R a-w "$r"/gnu/store/*
  find "$r/gnu/store" -exec touch -h -d @1 {} +
  paths /gnu
}
world_volume() { # /nix is a file system of its own, on Ubuntu
  mkdir -p "$work/$world/nix"
  mount -t tmpfs none "$work/$world/nix"
  world_ubuntu
}
world_ubuntu() {
  base
  ln -s usr/lib "$r/lib"
  distribution usr/lib/x86_64-linux-gnu
  driver_into "$r/usr/lib/x86_64-linux-gnu"
  cached
}
world_debian() {
  base
  ln -s usr/lib "$r/lib"
  distribution usr/lib/x86_64-linux-gnu
  driver_into "$r/usr/lib/x86_64-linux-gnu/nvidia/current"
  echo /usr/lib/x86_64-linux-gnu/nvidia/current >>"$r/etc/ld.so.conf"
  cached
}
world_fedora() {
  base
  mkdir -p "$r/usr/lib64"
  ln -s usr/lib64 "$r/lib64"
  distribution usr/lib64
  rm -f "$r/usr/lib64/ld-linux-x86-64.so.2"
  cp -L "$(gcc -print-file-name=ld-linux-x86-64.so.2)" "$r/usr/lib64/"
  driver_into "$r/usr/lib64"
  cached
}
world_opensuse() { # Leap: the C library is in /lib64, the driver in /usr/lib64
  base
  distribution lib64
  driver_into "$r/usr/lib64"
  echo /usr/lib64 >>"$r/etc/ld.so.conf"
  cached
}
world_container() { # nixos/nix, with what a container's runtime brings in
  base
  ln -s "$package/bin/sh" "$r/bin/sh"
  driver_into "$r/usr/lib64"
}
world_apptainer() { # --nv: the host's files in a directory, which LD_LIBRARY_PATH names for what the image has
  base
  ln -s usr/lib "$r/lib"
  distribution usr/lib/x86_64-linux-gnu
  driver_into "$r/.singularity.d/libs"
  cached
}
world_nvccli() { # --nvccli: where NVIDIA's runtime puts them
  world_ubuntu
  mkdir -p "$r/.singularity.d/libs"
}
world_alpine() {
  base
  mkdir -p "$r/lib"
  cp -L "$(musl-gcc -print-file-name=libc.so)" "$r/lib/ld-musl-x86_64.so.1"
  ln -s ld-musl-x86_64.so.1 "$r/lib/libc.musl-x86_64.so.1"
  musl-gcc -O1 -o "$r/bin/sh" -x c - <<<'int main(void) { return 0; }'
  driver_into "$r/usr/local/nvidia/lib64"
}
world_gke() {
  base
  ln -s usr/lib "$r/lib"
  distribution usr/lib/x86_64-linux-gnu
  driver_into "$r/usr/local/nvidia/lib64"
  cached
}
world_wsl() {
  base
  ln -s usr/lib "$r/lib"
  distribution usr/lib/x86_64-linux-gnu
  driver_into "$r/usr/lib/wsl/lib"
  echo /usr/lib/wsl/lib >>"$r/etc/ld.so.conf"
  cached
}
world_jetson() { # its directories, with files for x86-64
  base
  ln -s usr/lib "$r/lib"
  distribution usr/lib/x86_64-linux-gnu
  echo '# R36 (release), REVISION: 4.0, GCID: 37537400, BOARD: generic, EABI: aarch64' >"$r/etc/nv_tegra_release"
  driver_into "$r/usr/lib/x86_64-linux-gnu/nvidia"
  echo /usr/lib/x86_64-linux-gnu/nvidia >>"$r/etc/ld.so.conf"
  cached
}

world_jetson-csv() { # a container on it, into which the files that a CSV names are mounted, libcuda without a version among them
  base
  ln -s usr/lib "$r/lib"
  distribution usr/lib/x86_64-linux-gnu
  driver_into "$r/usr/lib/x86_64-linux-gnu/nvidia"
  mv "$r/usr/lib/x86_64-linux-gnu/nvidia/libcuda.so.$version" "$r/usr/lib/x86_64-linux-gnu/nvidia/libcuda.so.1.1"
  # Without a version, it says what it is by the release of its compiler, as the real one does.
  printf 'Cuda compilation tools, release 13.0, V13.0.88\0' >>"$r/usr/lib/x86_64-linux-gnu/nvidia/libcuda.so.1.1"
  ln -sf libcuda.so.1.1 "$r/usr/lib/x86_64-linux-gnu/nvidia/libcuda.so.1"
  echo /usr/lib/x86_64-linux-gnu/nvidia >>"$r/etc/ld.so.conf"
  cached
}

# A tool of a wheel, whose interpreter is the distributions'; and what a profile has.
also_nixos() { :; }
also_nix-ld() { :; }
also_guix() { :; }
row_also() { # USER
  if [[ $world == guix ]]; then
    step "of the profile" "libcuda.so.1: cannot open" "$1" .guix-profile/bin/train
    step "of the profile, by hostDriver run" 'cuInit 0 from .*/libcuda.so.1' "$1" /tools/hostDriver run .guix-profile/bin/train
    step "doctor of it" "hostDriver run" "$1" /tools/hostDriver doctor .guix-profile/bin/train
    step "there is no loader for the tool" "No such file" "$1" .venv/bin/tool
    step "audit has a remedy" "runpath edit --interpreter $loader" "$1" /tools/runpath audit .venv
    step "the remedy" "1 edited" "$1" /tools/runpath edit --interpreter "$loader" .venv/bin/tool
    step "then it starts" "a tool of a wheel" "$1" .venv/bin/tool
  elif [[ $world == nixos ]]; then
    step "the tool does not start" "NixOS cannot run" "$1" .venv/bin/tool
    step "explain knows why" "is NixOS's stub-ld" "$1" /tools/runpath explain .venv/bin/tool
    step "autoPatchelf says so" "1 program does not start here.*is NixOS's stub-ld.*--interpreter $loader" "$1" /tools/autoPatchelf --libs "$cxx/lib" .venv
    step "audit has a remedy" "runpath edit --interpreter $loader" "$1" /tools/runpath audit .venv/bin/tool
    step "the remedy" "1 edited" "$1" /tools/runpath edit --interpreter "$loader" .venv/bin/tool
    step "then it starts" "a tool of a wheel" "$1" .venv/bin/tool
    # uv's Python, outside of the environment: the four say the same, and nothing edits it unasked.
    local fix="runpath edit --interpreter $loader /home/me/$uv_python/bin/python3.12"
    step "the Python of uv does not start" "NixOS cannot run" "$1" uv/.venv/bin/python
    step "autoPatchelf says so" "is NixOS's stub-ld.*$fix" "$1" /tools/autoPatchelf --libs "$cxx/lib" uv/.venv
    step "audit says so" "$fix" "$1" /tools/runpath audit uv/.venv
    step "doctor says so" "$fix" "$1" /tools/hostDriver doctor uv/.venv
    step "explain says so" "$fix" "$1" /tools/runpath explain uv/.venv
    # shellcheck disable=SC2086 # as a reader types it
    step "the second command" "1 edited" "$1" /tools/$fix
    step "then it opens" "opened .*: 3" "$1" uv/.venv/bin/python uv/.venv/lib/python3.12/site-packages/_text.so
  else
    step "the tool starts, by nix-ld" "a tool of a wheel" "$1" .venv/bin/tool
    step "explain finds the same" "libc.so.6 (→|->) /run/current-system/sw/share/nix-ld/lib/libc.so.6" "$1" /tools/runpath explain --all .venv/bin/tool
    step "autoPatchelf leaves it" "edited" "$1" /tools/autoPatchelf --libs "$cxx/lib" .venv
    step "it still starts" "a tool of a wheel" "$1" .venv/bin/tool
  fi
}
