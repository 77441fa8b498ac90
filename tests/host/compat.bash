# shellcheck shell=bash
# shellcheck disable=SC2015
# Compat packages: which libcuda.so.1 a program gets, by NVIDIA's note or by version numbers, in both methods of run and by install.
# Made-up libraries with notes of the real form. Sourced by tests/host/run after attacks.bash, whose tiny driver is used.
: "${work:=}" "${hostDriver:=}" "${namespaces:=}"
declare -a nobody

compat=$work/compat-test
mkdir -p "$compat/driver" "$compat/bin" && chmod 755 "$compat"
# cuda_library FILE BUILD [NOTE]: a libcuda.so.1 that says which one it is, with a note .note.cuda.fwd_compatibility.
cuda_library() {
  mkdir -p "${1%/*}"
  {
    printf '#include <dlfcn.h>\nconst char *build(void) { return "%s"; }\n' "$2"
    # As the real one, it opens the PTX compiler by its bare name.
    printf 'const char *compiler(void) { void *l = dlopen("libnvidia-ptxjitcompiler.so.1", RTLD_NOW);
      const char *(*of)(void) = l ? dlsym(l, "ptx") : 0; return of ? of() : "not found"; }\n'
    [[ -z ${3-} ]] || printf 'static const struct { int namesz, descsz, type; char name[20]; char desc[%d]; }\nnote __attribute__((section(".note.cuda.fwd_compatibility,\\"a\\",@note #"), used, aligned(4))) =\n{ 19, %d, 0, "NVIDIA Corporation", "%s" };\n' \
      "$(((${#3} + 4) / 4 * 4))" "${#3}" "${3//\"/\\\"}"
  } | gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$1" -x c - || return
  ln -sfn "${1##*/}" "${1%/*}/libcuda.so.1"
}
ptx_library() { # DIR VERSION BUILD
  printf 'const char *ptx(void) { return "%s"; }\n' "$3" | gcc -shared -fPIC -Wl,-soname,libnvidia-ptxjitcompiler.so.1 -o "$1/libnvidia-ptxjitcompiler.so.$2" -x c - &&
    ln -sfn "libnvidia-ptxjitcompiler.so.$2" "$1/libnvidia-ptxjitcompiler.so.1"
}
note() { printf '{"format":1,"CUDA version":"%s","driver":[%s],"device":[1,2,7]}' "$1" "$2"; }
cuda_library "$compat/driver/libcuda.so.550.54.14" driver "$(note 12.4 450,470,535,550)" && ptx_library "$compat/driver" 550.54.14 driver || no "compat: the driver builds"
like "compat: (readelf sees the note)" "NVIDIA Corporation" "$(readelf -nW "$compat/driver/libcuda.so.1")"
is "compat: the CUDA version is the note's" 'the note .note.cuda.fwd_compatibility' \
  "$(hostDriver doctor --from "$compat/driver" --json | jq -r '.facts[] | select(.subject == "CUDA" and (.text | contains("12.4"))).source' | sed 's/ of .*//')"

cat >"$compat/program.c" <<'C'
#include <stdio.h>
const char *build(void), *compiler(void);
int main(void) {
	printf("%s, PTX compiler %s\n", build(), compiler());
	return 0;
}
C
# A package: NAME VERSION NOTE WANT; WANT is whose library the program gets.
n=0
while read -r name package_version cuda drivers verdict want; do
  n=$((n + 1)) verdict=${verdict/notneeded/not needed}
  said=${verdict/helps/'helps(, if this GPU may \(not known\))?'}
  dir=$compat/$name/compat
  text=
  [[ $cuda == - ]] || text=$(note "$cuda" "$drivers")
  cuda_library "$dir/libcuda.so.$package_version" compat "$text" && ptx_library "$dir" "$package_version" compat || no "compat: $name builds"
  # As NVIDIA's, it says nothing of where its PTX compiler is; a loader from Nix would not find it.
  for tag in enable disable; do
    gcc -o "$compat/bin/$name-$tag" "$compat/program.c" "$dir/libcuda.so.1" "-Wl,--$tag-new-dtags,-rpath,$dir:/run/opengl-driver/lib"
  done
  like "compat: $name: without hostDriver the package's is loaded" "^compat, " "$("$compat/bin/$name-enable")"
  for who in root victim; do
    as=()
    [[ $who == root ]] || as=("${nobody[@]}")
    for method in namespace library-path; do
      [[ $method == library-path || -n $namespaces ]] || continue
      got=$("${as[@]}" "$hostDriver" run --method "$method" --from "$compat/driver" -- "$compat/bin/$name-enable" 2>&1)
      is "compat: $name, run --method $method as $who: $verdict" "$want, PTX compiler $want" "$got"
    done
  done
  if [[ -n $namespaces ]]; then
    is "compat: $name, run --compat always" "compat, PTX compiler compat" \
      "$(hostDriver run --compat always --method namespace --from "$compat/driver" -- "$compat/bin/$name-enable" 2>&1)"
    is "compat: $name, run --compat never" "driver, PTX compiler driver" \
      "$(hostDriver run --compat never --method namespace --from "$compat/driver" -- "$compat/bin/$name-enable" 2>&1)"
    is "compat: $name, a program with DT_RPATH: $verdict" "$want, PTX compiler $want" \
      "$(hostDriver run --method namespace --from "$compat/driver" -- "$compat/bin/$name-disable" 2>&1)"
  fi
  is "compat: $name, library-path --compat always" "compat, PTX compiler compat" \
    "$(hostDriver run --compat always --method library-path --from "$compat/driver" -- "$compat/bin/$name-enable" 2>&1)"
  is "compat: $name, library-path --compat never" "driver, PTX compiler driver" \
    "$(hostDriver run --compat never --method library-path --from "$compat/driver" -- "$compat/bin/$name-enable" 2>&1)"
  like "compat: $name, DT_RPATH and library-path: it says that it cannot hide it" "DT_RPATH, which comes before LD_LIBRARY_PATH" \
    "$(hostDriver run --compat never --method library-path --from "$compat/driver" -- "$compat/bin/$name-disable" 2>&1)"
  like "compat: $name, run --verbose says why" "compat package $dir: $said: it is .*$package_version, the host's driver CUDA 12\.4, 550\.54\.14" \
    "$(hostDriver run -v --from "$compat/driver" -- "$compat/bin/$name-enable" 2>&1)"
  # A program whose run path does not name it.
  gcc -o "$compat/bin/plain" "$compat/program.c" "$compat/driver/libcuda.so.1" -Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib
  for method in namespace library-path; do
    [[ $method == library-path || -n $namespaces ]] || continue
    is "compat: $name, run --compat DIR --method $method" "$want, PTX compiler $want" \
      "$(hostDriver run --compat "$dir" --method "$method" --from "$compat/driver" -- "$compat/bin/plain" 2>&1)"
  done
  # install: with the package, then again, then after an upgrade of the driver to one that needs it no more.
  tree=$compat/tree-$name
  skeleton "$tree"
  mkdir -p "$tree/opt/compat"
  cp -a "$compat/driver"/* "$tree/usr/lib64/"
  cp -a "$dir"/* "$tree/opt/compat/"
  for copy in --links ""; do
    # shellcheck disable=SC2086
    out=$(hostDriver install --root "$tree" --compat /opt/compat $copy 2>&1) || no "compat: $name, install $copy"
    like "compat: $name, install $copy --compat says it" "compat package /opt/compat: $said: " "$out"
    at=$tree$(leads "$tree" /run/opengl-driver/lib | sed -n 's/^libcuda.so.1 //p')
    is "compat: $name, install $copy --compat: whose libcuda.so.1 is in the driver link" 1 "$(strings -a "$at" | grep -c -x "$want")"
    like "compat: $name, install $copy again" "unchanged" "$(hostDriver install --root "$tree" --compat /opt/compat $copy 2>/dev/null)"
  done
  rm "$tree/usr/lib64"/lib*
  cuda_library "$tree/usr/lib64/libcuda.so.590.44.01" newer "$(note 13.1 535,550,580,590)" && ptx_library "$tree/usr/lib64" 590.44.01 newer
  out=$(hostDriver install --root "$tree" --compat /opt/compat 2>&1) || no "compat: $name, install after an upgrade"
  like "compat: $name, install after an upgrade of the driver: it harms now" "compat package /opt/compat: harms: .*590\.44\.01.*803" "$out"
  is "compat: $name, install after an upgrade: the driver's own is back" 1 \
    "$(strings -a "$tree$(leads "$tree" /run/opengl-driver/lib | sed -n 's/^libcuda.so.1 //p')" | grep -c -x newer)"
done <<EOF2
helps 580.95.05 13.0 535,550,580 helps compat
other-drivers 580.95.05 13.0 535,570,580 harms driver
older 535.261.03 12.2 470,535 harms driver
same-cuda-older 550.40.07 12.4 535,550 harms driver
same 550.54.14 12.4 535,550 notneeded driver
no-note-newer 560.35.03 - - helps compat
no-note-older 525.60.13 - - harms driver
EOF2
is "compat: (the packages were tried)" 7 "$n"
