# shellcheck shell=bash
# getRunpathEntries FILE ARRAY: appends the entries of the file's run path to the array.
getRunpathEntries() {
    local -n __theArray=$2
    local __list __entry
    __list=$(patchelf --print-rpath "$1" 2>/dev/null) || return 1
    while IFS= read -r -d : __entry; do __theArray+=("$__entry"); done <<<"${__list:+$__list:}"
}
