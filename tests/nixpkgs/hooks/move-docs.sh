# shellcheck shell=bash disable=SC2154
# $out/man, doc and info are moved to $out/share.
preFixupHooks+=(_moveToShare)

_moveToShare() {
    local name
    local -a names=()
    concatTo names forceShare
    if ((${#names[@]} == 0)); then names=(man doc info); fi
    for name in "${names[@]}"; do
        if [[ -z ${out-} || ! -d $out/$name ]]; then continue; fi
        if [[ -d $out/share/$name ]]; then
            echo "both $name/ and share/$name/ exist!"
        else
            echo "moving $out/$name to $out/share/$name"
            mkdir -p "$out/share"
            mv "$out/$name" "$out/share/"
        fi
    done
}
