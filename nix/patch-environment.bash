# patch-environment: lib.patchEnvironment, which sets these before it:
#   libraries  a file of the store with the directories of the libraries, one a line
#   elsewhere  the function of Nix that makes such a file from another nixpkgs
#   store      the Nix store
#   usual      the trees, where none is named
#   given      more flags of autoPatchelf
#   driver     not empty: scripts get the driver link too
: "${libraries:?}" "${elsewhere:?}" "${store:?}" "${usual[0]:?}" "${driver?}"
usage="patch-environment [--nixpkgs FLAKE] [--undo] [--dry-run] [--quiet] [FLAG=VALUE]... [DIR]...

Makes what pip, uv or npm installed into DIR (${usual[*]}) find libraries of Nix and the GPU driver.
A link, DIR/.patch-environment, keeps the libraries from the garbage collector.
--undo takes all back but changes of scripts.
--nixpkgs FLAKE takes the libraries from that nixpkgs: that of the Python, or an older one.
Any other flag, --FLAG=VALUE, is autoPatchelf's."
trees=() flags=("${given[@]}") undo='' dry=() quiet=() status=0
while (($#)); do
  case $1 in
    --nixpkgs=*) set -- --nixpkgs "${1#*=}" "${@:2}" && continue ;;
    --nixpkgs)
      flake=${2?$usage}
      [[ ! -d ${flake#path:} ]] || flake=path:$(realpath "${flake#path:}")
      libraries=$(nix-build --no-out-link --extra-experimental-features flakes \
        --argstr flake "$flake" "$elsewhere")
      shift
      ;;
    --undo) undo=yes ;;
    --dry-run) dry=("$1") ;;
    -q | --quiet) quiet=("$1") ;;
    -h | --help) echo "usage: $usage" && exit ;;
    -*) flags+=("$1") ;;
    *) trees+=("$1") ;;
  esac
  shift
done
if ((${#trees[@]} == 0)); then
  recorded=()
  for tree in "${usual[@]}"; do
    [[ ! -d $tree ]] || trees+=("$tree")
    [[ ! -d $tree || ! -e $tree.autopatchelf.json ]] || recorded+=("$tree")
  done
  [[ -z $undo || ${#recorded[@]} == 0 ]] || trees=("${recorded[@]}")
fi

patched() { # LIST FLAG…: autoPatchelf with the libraries of a list
  local directories
  mapfile -t directories <"$1"
  autoPatchelf "${directories[@]/#/--libs=}" "${flags[@]}" "${@:2}" "$tree"
}
keep() {
  nix-store --realise "$libraries" --add-root "$tree/.patch-environment" --indirect >/dev/null
}
# What autoPatchelf finds it leaves, so with other libraries than before all begins anew.
is_other() {
  local root=$tree/.patch-environment
  [[ -e $root && ! $root -ef $libraries && ${#dry[@]} == 0 ]]
}
undone() { autoPatchelf --undo "${flags[@]}" "${dry[@]}" "$@" "$tree"; }

for tree in "${trees[@]}"; do
  if [[ -n $undo ]]; then
    if ! undone "${quiet[@]}"; then
      status=1
    elif ((${#dry[@]} == 0)); then
      rm -f "$tree/.patch-environment"
      if changed=$(grep -rlIF /run/opengl-driver/lib "$tree"); then
        echo "These name the driver link still; to undo that, install their packages again:" >&2
        echo "$changed" >&2
      fi
    fi
    continue
  fi

  if is_other; then undone --quiet || true; fi
  plan=$(patched "$libraries" --dry-run --quiet 2>&1) || true
  if grep -e " needs a newer C library: " <<<"$plan" >&2; then
    if is_other; then patched "$tree/.patch-environment" --quiet || true; fi
    echo "patch-environment: $tree: nothing is changed, because its Python has an older glibc" \
      "than the libraries need; fix: --nixpkgs FLAKE, the nixpkgs that the Python is from" >&2
    status=1
    continue
  fi
  # Programs that do not start here, as wheels bring them, get the loader of the tree's Python.
  interpreter=()
  if [[ $plan == *" not start here: the loader that "* ]]; then
    if [[ $(runpath show "$tree/bin/python") =~ interpreter\ +("$store"/[^$'\n']+) ]]; then
      interpreter=("--interpreter=${BASH_REMATCH[1]}")
    fi
  fi
  if ((${#dry[@]} == 0)) && [[ -d $tree && ! -e $tree/.patch-environment ]]; then keep; fi
  patched "$libraries" "${interpreter[@]}" "${dry[@]}" "${quiet[@]}" || status=1
  if [[ -n $driver ]]; then runpath scripts --fix "${dry[@]}" "${quiet[@]}" "$tree" || status=1; fi
  if is_other; then keep; fi
done
exit "$status"
