# shellcheck shell=bash disable=SC2154
# SOURCE_DATE_EPOCH is the time of the newest file of the source.
postUnpackHooks+=(_updateSourceDateEpochFromSourceRoot)

_updateSourceDateEpochFromSourceRoot() {
    local newest
    if [[ -z ${sourceRoot-} ]]; then return 0; fi
    newest=$(find "./$sourceRoot" -type f ! -newer "$NIX_BUILD_TOP/.." -printf '%T@\n' | sort -n | tail -n 1)
    newest=${newest%.*}
    if ((${newest:-0} > SOURCE_DATE_EPOCH)); then export SOURCE_DATE_EPOCH=$newest; fi
}
