# Sourced by the scripts here and by tests/host/gpu: counting, the closing line, a scratch directory, our binaries; where the
# host's driver is, and how a program runs that cannot see it. Each case prints PASS, FAIL or SKIP with its evidence.
# shellcheck shell=bash disable=SC2034,SC2154
set -u -o pipefail
exec </dev/null
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tests/gpu
passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); echo "PASS  $*"; }
fail() { failed=$((failed + 1)); echo "FAIL  $*"; }
skip() { skipped=$((skipped + 1)); echo "SKIP  $*"; }
note() { printf '      %s\n' "${@//$'\n'/$'\n'      }"; }
show() { note "$(tail -n "${2-8}" <<<"$1" | cut -c1-400)"; } # TEXT [LINES]: the last of them
finish() {
  echo "# $SECONDS s"
  echo "$passed passed, $failed failed, $skipped skipped"
  ((failed == 0))
  exit
}
# says NAME PATTERN COMMAND…: what the command prints matches the extended regular expression.
says() {
  local name=$1 pattern=$2 out
  shift 2
  out=$("$@" 2>&1)
  if grep -E -q -- "$pattern" <<<"$out"; then pass "$name"; show "$(grep -E -- "$pattern" <<<"$out")" 3; else fail "$name (expected: $pattern)"; show "$out" 16; fi
}

# begin NAME: $work, which is removed at the end, with the driver link where $installed says that we made it.
begin() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/$1.XXXXXX") || exit 2
  chmod 755 "$work" # some cases run as another user
  out=${OUT:-$work/out} installed=
  mkdir -p "$out" "$work/bin"
  trap '[[ -z $installed ]] || hostDriver uninstall -q; chmod -R u+w "$work" && rm -rf "$work"' EXIT
}
# binaries: our own in PATH, those of CUDA_RUNPATH_BIN or built with Go.
binaries() {
  if [[ -n ${CUDA_RUNPATH_BIN-} ]]; then
    PATH=$CUDA_RUNPATH_BIN:$PATH
  elif command -v go >/dev/null; then
    (cd "$root" && CGO_ENABLED=0 GOTOOLCHAIN=local go build -o "$work/bin/" ./cmd/...) || { fail "the binaries build"; finish; }
    PATH=$work/bin:$PATH
  fi
  { command -v runpath && command -v hostDriver; } >/dev/null || { skip "everything: no Go and no CUDA_RUNPATH_BIN, so there are no binaries to try"; finish; }
}

# driver_link DIR: make DIR/lib a driver link as NixOS has it, of libraries that find each other. hostDriver run's own directory of
# them, and not install's: what uninstall takes back, which cases try, is all that was ever installed.
driver_link() {
  # shellcheck disable=SC2016 # for the shell that hostDriver starts
  mkdir -p "$1" && XDG_CACHE_HOME=$work/cache hostDriver run --from "$host_driver" --method library-path -- sh -c 'cp -a "${LD_LIBRARY_PATH%%:*}" "$1/lib"' - "$1" 2>"$work/log" && [[ -e $1/lib/libcuda.so.1 ]]
}
# find_driver prints the directory of the host's libcuda.so.1.
find_driver() {
  local directory
  for directory in "${CUDA_DRIVER_DIR-}" /run/opengl-driver/lib /usr/local/nvidia/lib64 /usr/lib/wsl/lib \
    "$(ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1 .*x86-64.* => \(.*\)\/libcuda\.so\.1$/\1/p;s/.*libcuda\.so\.1 .*AArch64.* => \(.*\)\/libcuda\.so\.1$/\1/p' | head -n 1)" \
    /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64; do
    [[ -n $directory && -e $directory/libcuda.so.1 ]] && { echo "$directory"; return; }
  done
  return 1
}

# hidden COMMAND…: run it as on a host whose loader does not know the driver: without LD_LIBRARY_PATH, with an empty
# ld.so.cache, and with the links to the driver gone from the directories that the loader searches in any case (container
# runtimes leave some there). Only a run path can find the driver then. All this in a mount namespace of its own, or, where
# that is not allowed, through the loader's --inhibit-cache, which does less. hide_driver, before it, reads host_driver and
# ld_so, the loader, and sets default_driver.
hide_driver() {
  driver_real=$(readlink -f "$host_driver")
  hide=('')
  [[ ! -e /etc/ld.so.cache ]] || { : >"$work/empty"; hide+=(/etc/ld.so.cache "$work/empty"); }
  default_driver=
  for directory in $(for d in /lib /lib64 /usr/lib /usr/lib64 "/lib/$(uname -m)-linux-gnu" "/usr/lib/$(uname -m)-linux-gnu"; do readlink -e "$d"; done | sort -u); do
    [[ -e $directory/libcuda.so.1 ]] || continue
    if [[ $directory == "$driver_real" ]]; then default_driver=$directory; continue; fi
    # The same directory with a link for every entry but those.
    mkdir -p "$work/with$directory" "$work/without$directory"
    for entry in "$directory"/* "$directory"/.[!.]*; do
      case $(readlink -f "$entry") in
        "$driver_real"/*) ;;
        *) [[ ! -e $entry && ! -L $entry ]] || ln -s "$work/with$directory/${entry##*/}" "$work/without$directory/" ;;
      esac
    done
    hide+=("$directory" "$work/without$directory")
  done
  cat >"$work/hide" <<'SH'
#!/bin/sh
# hide WITH [PLACE REPLACEMENT]… -- COMMAND…: each place stays reachable below WITH.
with=$1
shift
while [ "$1" != -- ]; do
  [ ! -d "$1" ] || mount --bind "$1" "$with$1" || exit 125
  mount --bind "$2" "$1" || exit 125
  shift 2
done
shift
exec "$@"
SH
  chmod +x "$work/hide"
  namespace=
  for flags in -m -rm; do
    unshare "$flags" "$work/hide" "$work/with" "${hide[@]:1}" -- true 2>/dev/null && { namespace=$flags; break; }
  done
  echo "# hidden from the loader: its cache${default_driver:+ (not $default_driver)}$(
    [[ -z $namespace ]] || for ((i = 3; i < ${#hide[@]}; i += 2)); do printf ', the links to the driver in %s' "${hide[i]}"; done
  )"
}
hidden() {
  if [[ -n $namespace ]]; then
    unshare "$namespace" "$work/hide" "$work/with" "${hide[@]:1}" -- "$@"
  else
    "$ld_so" --inhibit-cache "$@"
  fi
}
