# Sourced by the scripts here: where the host's driver is, and how a program runs that cannot see it. They set work, a
# temporary directory, and ld_so, the loader; hide_driver reads host_driver and sets default_driver.
# shellcheck shell=bash disable=SC2034,SC2154

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
# that is not allowed, through the loader's --inhibit-cache, which does less.
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
