# shellcheck shell=bash disable=SC2154
# Which output holds what, and what "dev" propagates.
preFixupHooks+=(_multioutDocs _multioutDevs)
postFixupHooks+=(_multioutPropagateDev)

__firstOutput() { # VARIABLE NAME…: the first NAME that is an output, or REMOVE, unless set
    local variable=$1 name
    if [[ -n ${!variable-} ]]; then return 0; fi
    shift
    for name in "$@"; do
        if [[ $name == REMOVE || -n ${!name-} ]]; then
            declare -g "$variable=$name"
            return 0
        fi
    done
    echo "no output for $variable among: $*" >&2
    return 1
}
__firstOutput outputDev dev out
__firstOutput outputBin bin out
__firstOutput outputInclude "$outputDev"
__firstOutput outputLib lib out
__firstOutput outputDoc doc out
__firstOutput outputDevdoc devdoc REMOVE
__firstOutput outputMan man "$outputBin"
__firstOutput outputDevman devman devdoc "$outputMan"
__firstOutput outputInfo info "$outputBin"

moveToOutput() { # PATTERN DIRECTORY: from every other output; REMOVE stands for nowhere
    local output before after
    for output in $(getAllOutputNames); do
        if [[ ${!output} == "$2" ]]; then continue; fi
        # shellcheck disable=SC2231  # a pattern
        for before in "${!output}"/$1; do
            if [[ ! -e $before && ! -L $before ]]; then continue; fi
            if [[ $2 == REMOVE ]]; then
                echo "Removing $before"
                rm -r "$before"
            else
                after=$2${before#"${!output}"}
                echo "Moving $before to $after"
                if [[ -d $after && -d $before ]]; then
                    find "$before" -mindepth 1 -maxdepth 1 -exec mv -t "$after" {} +
                    rmdir "$before"
                else
                    mkdir -p "${after%/*}"
                    mv "$before" "$after"
                fi
            fi
            rmdir -p --ignore-fail-on-non-empty "${before%/*}" 2>/dev/null || true
        done
    done
}

_multioutDocs() {
    # shellcheck disable=SC2034  # what ${!outputDevdoc} may lead to
    local REMOVE=REMOVE
    moveToOutput share/info "${!outputInfo}"
    moveToOutput share/doc "${!outputDoc}"
    moveToOutput share/gtk-doc "${!outputDevdoc}"
    moveToOutput share/devhelp/books "${!outputDevdoc}"
    moveToOutput share/man "${!outputMan}"
    moveToOutput share/man/man3 "${!outputDevman}"
}

_multioutDevs() {
    local f
    if [[ $(getAllOutputNames) == out || -z ${moveToDev-1} ]]; then return 0; fi
    moveToOutput include "${!outputInclude}"
    moveToOutput lib/pkgconfig "${!outputDev}"
    moveToOutput share/pkgconfig "${!outputDev}"
    moveToOutput lib/cmake "${!outputDev}"
    moveToOutput share/aclocal "${!outputDev}"
    for f in "${!outputDev}"/{lib,share}/pkgconfig/*.pc; do
        sed -i "/^includedir=/s|=\${prefix}|=${!outputInclude}|" "$f"
    done
}

_multioutPropagateDev() {
    local output
    if [[ $(getAllOutputNames) == out ]]; then return 0; fi
    for output in "$outputBin" "$outputInclude" "$outputLib"; do
        if [[ $output == "$outputDev" || ! -e ${!output} ]]; then continue; fi
        mkdir -p "${!outputDev}/nix-support"
        if ! grep -qsF " ${!output}" "${!outputDev}/nix-support/propagated-build-inputs"; then
            printf ' %s' "${!output}" >>"${!outputDev}/nix-support/propagated-build-inputs"
        fi
    done
}
