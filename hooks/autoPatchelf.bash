# shellcheck shell=bash disable=SC2154  # core.bash is there
# nixpkgs' autoPatchelfHook: its functions, arrays and entry, with the same arguments and settings.

# An env hook: the libraries of a dependency.
gatherLibraries() { autoPatchelfLibs+=("$1/lib"); } # PACKAGE

# Every directory there that holds shared objects is searched from now on.
addAutoPatchelfSearchPath() { # [--no-recurse] [--] PATH…
    local -a __crFound=()
    # That it ended well is told by a last word, an empty one.
    builtin mapfile -d '' -t __crFound < <("$cudaRunpathProgram" hook directories -- "$@" &&
        builtin printf '\0')
    [[ ${#__crFound[@]} != 0 && -z ${__crFound[-1]} ]] || builtin return
    extraAutoPatchelfLibs+=("${__crFound[@]::${#__crFound[@]}-1}")
}

# [--no-recurse] [--] PATH…
autoPatchelf() { cudaRunpathPlainly cudaRunpathTell autoPatchelf "$@"; }

autoPatchelfPostFixup() {
    cudaRunpathPlainly cudaRunpathTell autoPatchelfPostFixup || builtin exit
}

cudaRunpathGiven+=(autoPatchelf=)
if [[ " ${postFixupHooks[*]-} " != *" autoPatchelfPostFixup "* ]]; then
    # setup.sh sets it where it sources a hook.
    addEnvHooks "$targetOffset" gatherLibraries
    postFixupHooks+=(autoPatchelfPostFixup)
fi
