# shellcheck shell=bash
addCudaCompatRunpath() {
    patchelf --set-rpath "@compat@:$(patchelf --print-rpath "$1")" "$1"
}
compat="@compat@"
if [[ -n $compat ]]; then postFixupHooks+=("autoFixElfFiles addCudaCompatRunpath"); fi
