# shellcheck shell=bash
# shellcheck disable=SC2016
# A container, run by runc, of an image as Nix makes them: a store and nothing else, no shell, a read-only root, a user that is
# nobody. It gets the driver by the CDI specification, or where a runtime has mounted it by hostDriver as its entrypoint. The
# libraries and devices are made up. Sourced by tests/host/run after cdi.bash.
: "${work:=}" "${hostDriver:=}" "${cdi:=}" "${version:=}" "${mounts:=}" "${no_mounts:=}"

image=$work/container store=/nix/store/00000000000000000000000000000000-image
mkdir -p "$image/rootfs$store/lib" "$image/rootfs/proc" "$image/rootfs/dev"
cat >"$image/program.c" <<'C'
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
	void *l = dlopen("libcuda.so.1", RTLD_NOW);
	const char *build = l ? dlsym(l, "build") : 0;
	printf("%s, device %s, user %d, root %s\n", build ? build : dlerror(), open("/dev/nvidia0", O_RDWR) < 0 ? "closed" : "open", getuid(),
	       open("/new", O_CREAT | O_RDWR, 0600) < 0 ? "read-only" : "writable");
	return 0;
}
C
image_file() { cp -L "$(gcc -print-file-name="$1")" "$image/rootfs$store/lib/"; }
# contained NAME ARGUMENT… <CONFIGURATION: what the container prints; jq's "add" puts more mounts and devices into it.
contained() {
  jq -s --arg store "$store" '.[0] as $more | .[1] | .process.terminal = false | .process.args = $ARGS.positional | .process.user = {uid: 1234, gid: 1234}
    | .process.env = ["PATH=/none"] | .root.readonly = true | .mounts += ($more.mounts // []) | .linux.devices += ($more.linux.devices // [])
    | .linux.resources.devices += ($more.linux.resources.devices // [])' - "$image/spec.json" --args -- "${@:2}" >"$image/config.json" &&
    (cd "$image" && timeout 60 runc run "cuda-runpath-$1-$$" 2>&1 </dev/null)
}
if ! command -v runc >/dev/null; then
  skip "container: 4 checks: runc is not installed"
elif [[ ! -e ${cdi:-/none}/spec/cuda-runpath.json ]]; then
  skip "container: 4 checks: there is no CDI specification"
elif ! { gcc -o "$image/rootfs$store/program" "$image/program.c" -ldl "-Wl,--dynamic-linker=$store/lib/ld-linux-x86-64.so.2,--enable-new-dtags,-rpath,/run/opengl-driver/lib:$store/lib" &&
  image_file libc.so.6 && image_file libdl.so.2 && image_file ld-linux-x86-64.so.2; } 2>"$image/log" ||
  ! (cd "$image" && runc spec && mv config.json spec.json) || ! why=$(echo '{}' | contained try "$store/program"); then
  skip "container: 4 checks: none runs here: ${why:-$(tail -n 1 "$image/log")}"
else
  like "container: (without the driver, the program finds none)" "^libcuda\.so\.1: cannot open.*, device closed, user 1234, root read-only" "$why"
  is "container: by CDI, with a read-only root, as any user, without a shell" "build one, device open, user 1234, root read-only" \
    "$(cdi_inject "$cdi/spec" | contained cdi "$store/program")"
  # As NVIDIA's container toolkit does: the host's files, in the image's /usr/lib64.
  cp "$hostDriver" "$image/rootfs$store/hostDriver"
  mounted=$(for file in "$cdi/tree/usr/lib64"/lib*; do
    jq -n --arg from "$(readlink -f "$file")" --arg to "/usr/lib64/${file##*/}" '{source: $from, destination: $to, type: "bind", options: ["ro", "bind"]}'
  done | jq -s '{mounts: .}')
  is "container: hostDriver run as the entrypoint finds what a runtime has mounted" "build one, device closed, user 1234, root read-only" \
    "$(contained mounted "$store/hostDriver" run -- "$store/program" <<<"$mounted")"
  like "container: it says how" "/usr/lib64 holds nothing but the driver" "$(contained says "$store/hostDriver" run -v -- "$store/program" <<<"$mounted")"
  # Podman reads the specification itself, from /run/cdi: in a mount namespace of its own. (The limits that it would set need
  # rights that not even root may have here.)
  if [[ -z $mounts ]] || ! command -v podman >/dev/null; then
    skip "container: podman: it is not installed, or ${no_mounts:-not root}"
  else
    is "container: podman, by the same specification" "build one, device open, user 1234, root read-only" "$(unshare --mount sh -euc '
      mount -t tmpfs -o mode=755 none /run; mkdir /run/cdi; cp "$1"/*.json /run/cdi/; work=$2; shift 2
      exec timeout 60 podman --root "$work/podman" --runroot "$work/podman-run" --storage-driver vfs --cgroup-manager=cgroupfs --runtime runc run --rm \
        --ulimit "nofile=$(ulimit -n):$(ulimit -Hn)" --ulimit nproc=100:100 --network none --read-only --user 1234 --device cuda-runpath/driver=all --rootfs "$@"' \
      sh "$cdi/spec" "$work" "$image/rootfs" "$store/program" 2>&1 </dev/null)"
  fi
fi
