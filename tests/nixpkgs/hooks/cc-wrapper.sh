#!/bin/bash
# The host's compiler, with what nixpkgs' linker wrapper adds: -rpath for every -L
# into the store, unless NIX_DONT_SET_RPATH. (nixpkgs adds only those that hold a
# library which is linked; patchelf's shrink step removes the difference.) Without the setup hook, as where a check
# calls it by its path, it obeys NIX_DONT_SET_RPATH_SALT alone.
arguments=("$@")
linking=1
dontSet=${NIX_DONT_SET_RPATH_@salt@-}
if [[ -n ${NIX_CC_WRAPPER_TARGET_HOST_@salt@-} ]]; then dontSet+=${NIX_DONT_SET_RPATH-}; fi
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
            if [[ -z $dontSet ]]; then arguments+=("-Wl,-rpath,${flags[i]}"); fi
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
    if [[ -z $dontSet ]]; then
        for argument in "${arguments[@]}"; do
            case $argument in
            -L@store@/*) arguments+=("-Wl,-rpath,${argument#-L}") ;;
            esac
        done
    fi
fi
exec @compiler@ "${arguments[@]}"
