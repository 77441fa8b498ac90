# shellcheck shell=bash disable=SC2154
# Moves debugging symbols into the output "debug", by build ID, and keeps a link there.
export NIX_CFLAGS_COMPILE="${NIX_CFLAGS_COMPILE-} -ggdb"
export NIX_SET_BUILD_ID=1
fixupOutputHooks+=(_separateDebugInfo)

_separateDebugInfo() {
    if [[ ! -e $prefix || $prefix == "$debug" ]]; then return 0; fi
    local file id directory
    mkdir -p "$debug"
    while IFS= read -r -d '' file; do
        if ! isELF "$file"; then continue; fi
        id=$("$READELF" -n "$file" 2>/dev/null | sed -n 's/.*Build ID: //p') || true
        if [[ -z $id ]]; then continue; fi
        directory=$debug/lib/debug/.build-id/${id:0:2}
        mkdir -p "$directory"
        "$OBJCOPY" --only-keep-debug "$file" "$directory/${id:2}.debug"
        ln -sfn "$file" "$directory/${id:2}.executable"
    done < <(find "$prefix" -type f -print0)
}
