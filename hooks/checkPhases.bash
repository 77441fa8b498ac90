# shellcheck shell=bash disable=SC2154  # core.bash is in front of this
#
# Stubs for the check phases (stubReplaceForChecks), where fixup answers "offer".

# Wraps the check phases after fixupPhase: a phase is a variable of its name, else a function. By
# hand, in nix-shell, there is no list of them.
cudaRunpathOfferStubs() {
    local __crPhase __crAfter=''
    local __crUsual="fixupPhase ${preInstallCheckPhases[*]-} installCheckPhase ${preDistPhases[*]-}"
    # shellcheck disable=SC2048  # phases is a string or an array of words
    for __crPhase in ${phases[*]-$__crUsual ${postPhases[*]-}}; do
        if [[ $__crPhase == fixupPhase ]]; then
            __crAfter=1
        elif [[ -n $__crAfter && $__crPhase == *CheckPhase &&
            ${!__crPhase-} != cudaRunpathCheckPhase* ]]; then
            declare -g "cudaRunpathOriginal_$__crPhase=${!__crPhase:-$__crPhase}"
            declare -g "$__crPhase=cudaRunpathCheckPhase $__crPhase"
        fi
    done
}

cudaRunpathCheckPhase() { # PHASE
    local __crOriginal="cudaRunpathOriginal_$1"
    cudaRunpathHook nixLog "$1: offering the stubs in $cudaRunpathStubs"
    # Last, so that a package's own stand-in for the driver wins; and to the linker, for -lcuda.
    local -x LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cudaRunpathStubs"
    local -x LIBRARY_PATH="${LIBRARY_PATH:+$LIBRARY_PATH:}$cudaRunpathStubs/link"
    local -x TRITON_LIBCUDA_PATH="${TRITON_LIBCUDA_PATH:-$cudaRunpathStubs}"
    builtin eval "${!__crOriginal}"
}
