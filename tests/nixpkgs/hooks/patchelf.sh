# shellcheck shell=bash disable=SC2154,SC2016
# patchelf's own hook: takes out of each run path the directories that hold no
# needed library. It runs once an output, before postFixup.
fixupOutputHooks+=('if [[ -z ${dontPatchELF-} ]]; then patchELF "$prefix"; fi')

patchELF() {
    if [[ ! -e $1 ]]; then return 0; fi
    local file
    while IFS= read -r -d '' file; do
        if [[ $file != *.build-id* ]] && isELF "$file"; then
            patchelf --shrink-rpath "$file" 2>/dev/null || true
        fi
    done < <(find "$1" -type f -print0)
}
