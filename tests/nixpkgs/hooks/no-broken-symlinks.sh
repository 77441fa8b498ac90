# shellcheck shell=bash disable=SC2154
# Fails the build for links into the store, or the build directory, that lead nowhere.
if [[ -n ${__brokenLinksHook-} ]]; then return 0; fi
declare -g __brokenLinksHook=1
postFixupHooks+=(noBrokenSymlinksInAllOutputs)

noBrokenSymlinksInAllOutputs() {
    if [[ -n ${dontCheckForBrokenSymlinks-} ]]; then return 0; fi
    local output link target broken=
    for output in $(getAllOutputNames); do
        if [[ ! -e ${!output} ]]; then continue; fi
        while IFS= read -r -d '' link; do
            target=$(readlink "$link")
            if [[ $target != /* ]]; then target=$(realpath --no-symlinks --canonicalize-missing "${link%/*}/$target"); fi
            if [[ $target == "$TMPDIR"/* || $target == "$link" || ($target == "$NIX_STORE"/* && ! -e $target) ]]; then
                nixErrorLog "the symlink $link points to a missing target: $target"
                broken=1
            fi
        done < <(find "${!output}" -type l -print0)
    done
    if [[ -n $broken ]]; then exit 1; fi
}
