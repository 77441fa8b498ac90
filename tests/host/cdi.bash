# shellcheck shell=bash
# shellcheck disable=SC2016
# hostDriver cdi, read by the library of the Container Device Interface (its version is in tests/tools.mod), which Docker,
# Podman, containerd and CRI-O use. Sourced by tests/host/run after attacks.bash, whose tiny driver is used.
: "${root:=}" "${work:=}" "${hostDriver:=}" "${out:=}"

cdi=$work/cdi
mkdir -p "$cdi/spec" "$cdi/bad" && tiny "$cdi/tree" one one
rm -f "$cdi"/tree/dev/nvidia* && mkdir -p "$cdi/tree/dev/nvidia-caps"
cdi_inject() { (cd "$root" && go run -modfile=tests/tools.mod tests/host/cdi.go "$1" cuda-runpath/driver=all); }
if ! mknod "$cdi/tree/dev/nvidia0" c 1 3 || ! mknod "$cdi/tree/dev/nvidia-caps/nvidia-cap1" c 1 7 || ! chmod 666 "$cdi/tree/dev/nvidia0"; then
  skip "cdi: device nodes cannot be made here"
elif ! (cd "$root" && go list -modfile=tests/tools.mod -deps tests/host/cdi.go) >"$cdi/log" 2>&1; then
  skip "cdi: CDI's library cannot be had: $(tail -n 1 "$cdi/log")"
else
  status "cdi: prints a specification" 0 hostDriver cdi --dry-run --root "$cdi/tree" --cache "$cdi/cache"
  printf '%s\n' "$out" >"$cdi/spec/cuda-runpath.json"
  container=$(cdi_inject "$cdi/spec" 2>&1)
  is "cdi: CDI's library gives the container the devices, none of them a directory" "/dev/nvidia-caps/nvidia-cap1 c 1 7 rw
/dev/nvidia0 c 1 3 rw" \
    "$(jq -r '.linux | [.devices, .resources.devices] | transpose[] | "\(.[0].path) \(.[0].type) \(.[0].major) \(.[0].minor) \(.[1].access)"' <<<"$container" | sort)"
  is "cdi: and the driver's libraries, read-only" "ro,nosuid,nodev,rbind /run/opengl-driver/lib/libcuda.so.1" \
    "$(jq -r '.mounts[] | select(.destination | endswith("/libcuda.so.1")) | "\(.options | join(",")) \(.destination)"' <<<"$container")"
  is "cdi: each mount is of a file that is there, by no link" "" \
    "$(jq -r '.mounts[].source' <<<"$container" | while IFS= read -r file; do [[ -f $file && ! -L $file ]] || echo "$file"; done)"
  sed 's|"cuda-runpath/driver"|"-/driver"|' "$cdi/spec/cuda-runpath.json" >"$cdi/bad/x.json"
  like "cdi: CDI's library refuses another vendor's name" "invalid vendor" "$(cdi_inject "$cdi/bad" 2>&1)"
fi
