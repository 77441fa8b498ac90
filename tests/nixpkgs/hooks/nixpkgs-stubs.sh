# shellcheck shell=bash
if [[ -n ${removeStubsFromRunpathHookOnce-} ]]; then return 0; fi
declare -g removeStubsFromRunpathHookOnce=1
removeStubsFromRunpath() {
    local entry list='' old
    old=$(patchelf --print-rpath "$1")
    while read -r -d : entry; do
        case $entry in *-cuda*/lib/stubs) entry=@driverLink@/lib ;; esac
        list+=${list:+:}$entry
    done <<<"$old:"
    patchelf --set-rpath "$list" "$1"
}
postFixupHooks+=("autoFixElfFiles removeStubsFromRunpath")
