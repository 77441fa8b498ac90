# shellcheck shell=bash disable=SC2154
# Strips debugging symbols below the usual directories of each output.
fixupOutputHooks+=(_doStrip)

_doStrip() {
    if [[ -n ${dontStrip-} || -z ${STRIP-} ]]; then return 0; fi
    local directory file
    for directory in lib lib64 libexec bin sbin; do
        if [[ ! -d $prefix/$directory ]]; then continue; fi
        while IFS= read -r -d '' file; do
            if isELF "$file"; then "$STRIP" -S -p "$file" 2>/dev/null || true; fi
        done < <(find "$prefix/$directory" -type f ! -path "$prefix/lib/debug/*" -print0)
    done
}
