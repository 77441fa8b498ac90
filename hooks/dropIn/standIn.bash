# shellcheck shell=bash
#
# A package may switch nixpkgs' hooks off by what they are made of: by taking their entry out of
# postFixupHooks, or by giving the function that runs on each file another body. So under nixpkgs'
# names the same entries are there, until fixup takes them over: then the functions that are as
# they were run as our tools, all at once. Where fixupPhase is the package's own and gives no
# moment for that, the entries run as they do in nixpkgs, a file at a time.

# FUNCTION is what nixpkgs' entry runs. FILE is a setup hook that may bring another one of that
# name, nixpkgs' own, which does not count as a change.
cudaRunpathStandIn() { # FUNCTION [FILE]
    cudaRunpathGiven+=("stands-for=$1")
    cudaRunpathKnown["$1"]=$(declare -f "$1")
    if [[ -n ${2-} ]]; then
        # shellcheck disable=SC1090  # nixpkgs' file
        cudaRunpathKnown["$1"]+=$'\n'$(source "$2" >/dev/null 2>&1 && declare -f "$1")
    fi
    if [[ $(printf '<%s>' "${postFixupHooks[@]}") != *"<autoFixElfFiles $1>"* ]]; then
        postFixupHooks+=("autoFixElfFiles $1")
    fi
    cudaRunpathPlainly cudaRunpathComeLast
}

# Takes the entries that are still there out of postFixupHooks, and notes which they are.
cudaRunpathTakeStandIns() {
    local __crEntry __crFunction
    local -a __crRest=()
    if [[ -n ${cudaRunpathTaken-} ]]; then builtin return 0; fi
    cudaRunpathTaken=1
    for __crEntry in "${postFixupHooks[@]}"; do
        __crFunction=${__crEntry#autoFixElfFiles }
        if [[ $__crFunction == "$__crEntry" || -z ${cudaRunpathKnown["$__crFunction"]-} ]]; then
            __crRest+=("$__crEntry")
        elif [[ ${cudaRunpathKnown["$__crFunction"]} == *"$(declare -f "$__crFunction")"* ]]; then
            cudaRunpathGiven+=("entry=$__crFunction")
        else
            cudaRunpathGiven+=("redefined=$__crFunction")
            __crRest+=("$__crEntry")
        fi
    done
    postFixupHooks=("${__crRest[@]}")
}
