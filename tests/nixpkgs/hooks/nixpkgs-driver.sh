# shellcheck shell=bash
addDriverRunpath() {
    local file
    for file in "$@"; do
        if isELF "$file"; then
            patchelf --set-rpath "@driverLink@/lib:$(patchelf --print-rpath "$file")" "$file"
        fi
    done
}
