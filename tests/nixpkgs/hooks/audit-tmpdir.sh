# shellcheck shell=bash disable=SC2016
# Fails the build for a run path into the build directory.
fixupOutputHooks+=('if [[ -z ${noAuditTmpdir-} && -e $prefix ]]; then auditTmpdir "$prefix"; fi')

auditTmpdir() {
    local file
    echo "checking for references to $TMPDIR/ in $1..."
    while IFS= read -r -d '' file; do
        if isELF "$file" && [[ :$(patchelf --print-rpath "$file" 2>/dev/null || true) == *":$TMPDIR/"* ]]; then
            echo "RPATH of binary $file contains a forbidden reference to $TMPDIR/"
            exit 1
        fi
    done < <(find "$1" -type f ! -path '*/.build-id/*' -print0)
}
