# shellcheck shell=bash
#
# A package may switch nixpkgs' hooks off by taking their entry out of postFixupHooks, and other
# hooks look for it there. So under nixpkgs' names the same entries are there, until fixup takes
# them over: then those that are left run as our tools, all at once, whatever body the package has
# given to their function, which stays for calls of its own. Where fixupPhase is the package's own
# and gives no moment for that, the entries run as they do in nixpkgs, a file at a time.

# FUNCTION is what nixpkgs' entry runs.
cudaRunpathStandIn() { # FUNCTION
    cudaRunpathGiven+=("stands-for=$1")
    cudaRunpathKnown["$1"]=1
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
        else
            cudaRunpathGiven+=("entry=$__crFunction")
        fi
    done
    postFixupHooks=("${__crRest[@]}")
}
