# shellcheck shell=bash disable=SC2154
# Which output holds what, and what "dev" propagates; as in nixpkgs, without the
# moving of documentation and headers.

__firstOutput() { # VARIABLE NAME…: the first NAME that is an output, unless set
    local variable=$1 name
    if [[ -n ${!variable-} ]]; then return 0; fi
    shift
    for name in "$@"; do
        if [[ -n ${!name-} ]]; then
            declare -g "$variable=$name"
            return 0
        fi
    done
    echo "no output for $variable among: $*" >&2
    return 1
}
__firstOutput outputDev dev out
__firstOutput outputBin bin out
__firstOutput outputLib lib out
__firstOutput outputMan man "$outputBin"

postFixupHooks+=(_multioutPropagateDev)
preFixupHooks+=(_multioutMan)

_multioutMan() {
    local output
    for output in $(getAllOutputNames); do
        if [[ ${!output} != "${!outputMan}" && -d ${!output}/share/man ]]; then
            mkdir -p "${!outputMan}/share"
            mv "${!output}/share/man" "${!outputMan}/share/man"
        fi
    done
}

_multioutPropagateDev() {
    if [[ $(getAllOutputNames) == out ]]; then return 0; fi
    local name
    for name in "$outputBin" "$outputLib"; do
        if [[ $name == "$outputDev" || ! -e ${!name} ]]; then continue; fi
        mkdir -p "${!outputDev}/nix-support"
        printf ' %s' "${!name}" >>"${!outputDev}/nix-support/propagated-build-inputs"
    done
}
