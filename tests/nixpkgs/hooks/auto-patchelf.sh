# shellcheck shell=bash disable=SC2154
# What autoPatchelfHook does to a run path: writes it anew, from the directories
# of the dependencies and outputs that hold the needed libraries. Registered when
# sourced, in postFixupHooks, as nixpkgs' is.
declare -ga autoPatchelfLibs
__autoPatchelfGather() { autoPatchelfLibs+=("$1/lib"); }
# shellcheck disable=SC2154
addEnvHooks "$targetOffset" __autoPatchelfGather
addAutoPatchelfSearchPath() { autoPatchelfLibs+=("$@"); }

autoPatchelf() { # PATH…
    local file needed directory list
    local -a directories=()
    mapfile -t directories < <(find "$@" -name '*.so*' -printf '%h\n' | sort -u)
    directories+=(${autoPatchelfLibs+"${autoPatchelfLibs[@]}"})
    while IFS= read -r -d '' file; do
        if ! isELF "$file" || ! patchelf --print-rpath "$file" >/dev/null 2>&1; then continue; fi
        list=
        for needed in $(patchelf --print-needed "$file"); do
            for directory in "${directories[@]}"; do
                if [[ -e $directory/$needed ]]; then
                    case :$list: in *":$directory:"*) ;; *) list+=${list:+:}$directory ;; esac
                    break
                fi
            done
        done
        echo "autoPatchelf: $file: $list"
        patchelf --set-rpath "$list" "$file"
    done < <(find "$@" -type f ! -path '*.build-id*' -print0)
}

autoPatchelfPostFixup() {
    if [[ -n ${dontAutoPatchelf-} ]]; then return 0; fi
    local output
    local -a paths=()
    for output in $(getAllOutputNames); do
        if [[ -e ${!output} && $output != debug ]]; then paths+=("${!output}"); fi
    done
    autoPatchelf "${paths[@]}"
}
postFixupHooks+=(autoPatchelfPostFixup)
