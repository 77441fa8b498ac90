# shellcheck shell=bash disable=SC2154
# autoFixElfFiles ACTION: runs ACTION on each ELF file with a dynamic section in
# the outputs, one process and more a file.
autoFixElfFiles() {
    local -a paths=()
    local output file
    for output in $(getAllOutputNames); do paths+=("${!output}"); done
    while IFS= read -r -d '' file; do
        if isELF "$file" && patchelf --print-rpath "$file" >/dev/null 2>&1; then "$1" "$file"; fi
    done < <(find "${paths[@]}" -type f -print0)
}
