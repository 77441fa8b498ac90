#!/bin/bash
# The host's compiler, with what nixpkgs' linker wrapper adds: -rpath for every -L
# into the store, unless NIX_DONT_SET_RPATH. (nixpkgs adds only those that hold a
# library which is linked; patchelf's shrink step removes the difference.)
arguments=("$@")
linking=1
for argument in "$@"; do
    case $argument in -c | -S | -E | -M | -MM) linking= ;; esac
done
read -ra flags <<<"${NIX_CFLAGS_COMPILE-}"
arguments+=("${flags[@]}")
if [[ -n $linking ]]; then
    read -ra flags <<<"${NIX_LDFLAGS-}"
    for ((i = 0; i < ${#flags[@]}; i++)); do
        case ${flags[i]} in
        -rpath)
            i=$((i + 1))
            if [[ -z ${NIX_DONT_SET_RPATH-} ]]; then arguments+=("-Wl,-rpath,${flags[i]}"); fi
            ;;
        -L* | -l*) arguments+=("${flags[i]}") ;;
        *) arguments+=("-Wl,${flags[i]}") ;;
        esac
    done
    # nixpkgs' own defaults: DT_RUNPATH, and a build ID only where debugging data is kept apart.
    arguments+=("-Wl,--enable-new-dtags")
    if [[ -n ${NIX_SET_BUILD_ID-} ]]; then
        arguments+=("-Wl,--build-id")
    else
        arguments+=("-Wl,--build-id=none")
    fi
    if [[ -z ${NIX_DONT_SET_RPATH-} ]]; then
        for argument in "${arguments[@]}"; do
            case $argument in
            -L@store@/*) arguments+=("-Wl,-rpath,${argument#-L}") ;;
            esac
        done
    fi
fi
exec @compiler@ "${arguments[@]}"
