# shellcheck shell=bash disable=SC2154
# Scripts' interpreters become those in PATH, or in HOST_PATH what runs on the host.
fixupOutputHooks+=(patchShebangsAuto)

patchShebangs() { # [--build | --host] [--update] [--] PATH…
    local search='' update='' file line old rest new
    while [[ ${1-} == --* ]]; do
        case $1 in
        --host) search=HOST_PATH ;;
        --build) search=PATH ;;
        --update) update=1 ;;
        --)
            shift
            break
            ;;
        *)
            echo "Unknown option $1 supplied to patchShebangs" >&2
            return 1
            ;;
        esac
        shift
    done
    if [[ -z $search ]]; then
        if [[ -n ${strictDeps-} && ${1-} == "$NIX_STORE"* ]]; then search=HOST_PATH; else search=PATH; fi
    fi
    echo "patching script interpreter paths in $*"
    while IFS= read -r -d '' file; do
        if ! isScript "$file"; then continue; fi
        read -r line <"$file" || true
        read -r old rest <<<"${line#??}" || true
        if [[ $old == "$NIX_STORE"/* && -z $update ]]; then continue; fi
        if [[ $old == */bin/env ]]; then
            new=$(PATH=${!search} type -P "${rest%% *}" || true)
            if [[ $rest == *" "* ]]; then rest=${rest#* }; else rest=; fi
        else
            new=$(PATH=${!search} type -P "${old##*/}" || true)
        fi
        if [[ -n $new && $new != "$old" ]]; then
            echo "$file: interpreter directive changed from \"$line\" to \"$new${rest:+ $rest}\""
            { printf '#!%s\n' "$new${rest:+ $rest}" && tail -n +2 "$file"; } >"$TMPDIR/patched"
            chmod u+w "$file"
            touch -r "$file" "$TMPDIR/time"
            cat "$TMPDIR/patched" >"$file"
            touch -r "$TMPDIR/time" "$file"
        fi
    done < <(find "$@" -type f -perm -0100 -print0)
}

patchShebangsAuto() {
    if [[ -n ${dontPatchShebangs-} || ! -e $prefix ]]; then return 0; fi
    if [[ $output != out && $output == "$outputDev" ]]; then
        patchShebangs --build "$prefix"
    else
        patchShebangs --host "$prefix"
    fi
}
