# shellcheck shell=bash disable=SC2154
# Links within an output become relative, so that they make no reference.
postFixupHooks+=(_makeSymlinksRelativeInAllOutputs)

_makeSymlinksRelativeInAllOutputs() {
    local output link target
    if [[ -n ${dontRewriteSymlinks-} ]]; then return 0; fi
    for output in $(getAllOutputNames); do
        if [[ ! -e ${!output} ]]; then continue; fi
        while IFS= read -r -d '' link; do
            target=$(readlink "$link")
            if [[ $target/ == "${!output}"/* ]]; then ln -snrf "$target" "$link"; fi
        done < <(find "${!output}" -type l -print0)
    done
}
