# shellcheck shell=bash disable=SC2034  # fixupElf.bash reads cudaRunpathAudited
#
# What the hooks share. Each sources it by its store path, so a build may source it many times. It
# tells the program `runpath hook` of the moments of a build, with what the shell has, and obeys its
# answers, which are a fixed list of words: nothing that is printed is evaluated. What the tools are
# given, and what is said, is decided there (pkg/cli/hook/doc.go).
#
# Names: outputs are shell variables too and may be called bin, lib or stubs; so locals here start
# with __cr, functions and globals with cudaRunpath. The program is called by absolute path: a hook
# in buildInputs under strictDeps has no entry in PATH. A failure is always an explicit exit: where
# a caller is in a condition, errexit does not work.

# What the hooks bring, and the variables that the program asks for. They are set when this is
# sourced first, whatever attribute of a package has the name.
if ! declare -F cudaRunpathTell >/dev/null; then
    unset -v cudaRunpathGiven cudaRunpathSettings
    unset -v cudaRunpathProgram cudaRunpathStubs cudaRunpathAudited
    declare -ga cudaRunpathGiven=() cudaRunpathSettings=()
    postHooks+=("cudaRunpathPlainly cudaRunpathComeLast")
    preFixupHooks+=("cudaRunpathPlainly cudaRunpathBeforeFixup")
    exitHooks+=("cudaRunpathPlainly cudaRunpathAtExit")
fi

# nixLog starts each line with its caller's name, hence this one. It is silent without NIX_LOG_FD.
cudaRunpathHook() { # nixLog|nixErrorLog MESSAGE
    if [[ -n ${NIX_LOG_FD-} ]] && declare -F "$1" >/dev/null; then "$1" "$2"; builtin return; fi
    builtin printf 'cudaRunpathHook: %s\n' "$2" >&2
}

# Runs COMMAND with the shell's settings as they usually are, whatever the package has set.
cudaRunpathPlainly() { # COMMAND…
    local - IFS=$' \t\n'
    set +efu +o posix +o pipefail
    "$@"
}

cudaRunpathBring() { # RELEASE TOOLS KEY=VALUE…
    cudaRunpathGiven+=("program=$1 $2" "${@:3}")
    # Either program says that two releases are an error.
    : "${cudaRunpathProgram:=$2/bin/runpath}"
    cudaRunpathPlainly cudaRunpathComeLast
}

# Moves our entry to the end of postFixupHooks, after what other hooks and the package have put
# there. runHook expands that list once, when it starts, so an entry cannot move itself then: this
# is done when a hook is sourced, when all are (postHooks), when fixup starts, and last for each
# output. stdenv's own entry that writes resolution notes leaves the list: our walk does it.
cudaRunpathComeLast() { # [TAKE]
    cudaRunpathMoveLast fixupOutputHooks "cudaRunpathPlainly cudaRunpathAfterOutput"
    cudaRunpathMoveLast postFixupHooks "cudaRunpathPlainly cudaRunpathFixup" "$@"
}

cudaRunpathMoveLast() { # ARRAY ENTRY [TAKE]
    local -n __crList=$1
    local -a __crOthers=()
    local __crEntry
    for __crEntry in "${__crList[@]}"; do
        if [[ $__crEntry == _generateLDCacheAllOutputs ]]; then
            cudaRunpathGiven+=(notes=)
        elif [[ -n ${3-} && $__crEntry == "autoFixElfFiles "* &&
            " ${cudaRunpathGiven[*]} " == *" stands-for=${__crEntry#autoFixElfFiles } "* ]]; then
            cudaRunpathGiven+=("entry=${__crEntry#autoFixElfFiles }")
        elif [[ $__crEntry != "$2" ]]; then
            __crOthers+=("$__crEntry")
        fi
    done
    __crList=("${__crOthers[@]}" "$2")
}

# A package may switch nixpkgs' hooks off by taking their entry out of postFixupHooks, and other
# hooks look for it there. So hooks of nixpkgs' names have the same entry, until fixup takes those
# that are left (TAKE): our tools run for them, whatever body the package has given to FUNCTION.
# Where a fixupPhase of the package's own gives no moment for that, they run as in nixpkgs.
cudaRunpathStandIn() { # FUNCTION, which the entry runs
    cudaRunpathGiven+=("stands-for=$1")
    cudaRunpathMoveLast postFixupHooks "autoFixElfFiles $1"
}

cudaRunpathBeforeFixup() { cudaRunpathComeLast; cudaRunpathTell before || builtin exit; }

cudaRunpathAfterOutput() { cudaRunpathComeLast TAKE; }

cudaRunpathFixup() { cudaRunpathComeLast TAKE; cudaRunpathTell fixup || builtin exit; }

# nix-shell runs the same trap; in a trap, exit or return alone means the status before it.
cudaRunpathAtExit() {
    [[ -n ${IN_NIX_SHELL-} ]] || cudaRunpathTell end || builtin exit "$?"
}

# Tells the program of a moment, obeys its answers and returns the status that it gives.
cudaRunpathTell() { # MOMENT [ARGUMENT…]
    local __crAnswer __crOutputs __crNotes='' __crStatus=''
    if ((${#cudaRunpathSettings[@]} == 0)); then
        # Of a process substitution bash may forget the status.
        __crAnswer=$("$cudaRunpathProgram" hook --settings) ||
            { cudaRunpathDied --settings; builtin return 1; }
        builtin mapfile -t cudaRunpathSettings <<<"$__crAnswer"
    fi
    __crOutputs=$(getAllOutputNames) || builtin return 1
    while IFS= builtin read -r -d '' __crAnswer; do
        case $__crAnswer in
        "log "*) cudaRunpathHook nixLog "${__crAnswer#log }" ;;
        "error "*) cudaRunpathHook nixErrorLog "${__crAnswer#error }" ;;
        "audited "*) cudaRunpathAudited=${__crAnswer#audited } ;;
        "stubs "*) cudaRunpathStubs=${__crAnswer#stubs } ;;
        offer) cudaRunpathOfferStubs ;;
        notes) __crNotes=1 ;;
        "status "*) __crStatus=${__crAnswer#status } ;;
        esac
    done < <(cudaRunpathShell "${@:2}" | "$cudaRunpathProgram" hook "$1")
    [[ -n $__crStatus ]] || { cudaRunpathDied "$1"; builtin return 1; }
    if [[ -n $__crNotes ]]; then _generateLDCacheAllOutputs; fi
    builtin return "$__crStatus"
}

cudaRunpathDied() { # MOMENT
    cudaRunpathHook nixErrorLog "$cudaRunpathProgram hook $1 ended without a status, as if killed"
}

# What the shell has, in doc.go's form. The arguments are among it: a function may have more of them
# than a program.
cudaRunpathShell() { # [ARGUMENT…]
    local __crName
    builtin printf '%s\0' arguments a "$#" "$@"
    for __crName in "${cudaRunpathSettings[@]}"; do
        local -n __crValue=$__crName
        [[ -z ${__crValue+x}${__crValue@a} ]] ||
            builtin printf '%s\0' "$__crName" "${__crValue@a}" "${#__crValue[@]}" "${__crValue[@]}"
    done
    for __crName in $__crOutputs; do
        builtin printf '%s\0' "output:$__crName" '' 1 "${!__crName-}"
    done
    ! declare -F autoPatchelf >/dev/null || builtin printf '%s\0' function:autoPatchelf '' 0
}

# Has the check phases after fixupPhase find stubs (stubReplaceForChecks): a phase is a variable of
# its name, else a function. By hand, in nix-shell, there is no list of them.
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
