# shellcheck shell=bash
#
# What the hooks share. Nix puts this text in front of each hook's own lines
# (nix/hooks.nix), so it may be sourced many times in one build, in any order: it
# only defines functions and keeps what is in its tables. Values that differ from
# hook to hook come in as arguments of the registration, never by substitution
# into this text.
#
# A hook calls `cudaRunpathRegister TOOL BINARY`. All that are registered run from
# one entry of postFixupHooks, cudaRunpathFixup, in the order of
# cudaRunpathOrder. That entry keeps itself last: see cudaRunpathComeLast.
#
# Names: outputs are shell variables too and may be called bin, lib or stubs, and
# every setting is one; so locals here start with __cr, functions and globals
# with cudaRunpath. Binaries are called by absolute path: a hook in buildInputs
# under strictDeps has no entry in PATH. Failure is always an explicit exit: where
# a caller stands in a condition, errexit does not work.

# TOOL to the absolute path of its binary; and those that a hook asked for.
declare -gA cudaRunpathBinary cudaRunpathAsked
# Compat directories that addCudaCompatRunpath's derivations brought.
declare -gA cudaRunpathCompat
# Keeps what they have, and makes them empty rather than unset for nounset.
cudaRunpathBinary+=() cudaRunpathAsked+=() cudaRunpathCompat+=()

# nixLog and nixErrorLog start each line with the name of the function that calls
# them, hence these two names. They are silent where NIX_LOG_FD is unset.
cudaRunpathHook() { # MESSAGE
    if [[ -n ${NIX_LOG_FD-} ]] && declare -F nixLog >/dev/null; then
        nixLog "$1"
    else
        printf 'cudaRunpathHook: %s\n' "$1" >&2
    fi
}

cudaRunpathFailure() { # MESSAGE
    if [[ -n ${NIX_LOG_FD-} ]] && declare -F nixErrorLog >/dev/null; then
        nixErrorLog "$1"
    else
        printf 'ERROR: cudaRunpathFailure: %s\n' "$1" >&2
    fi
}

# Makes TOOL's binary known to the shell functions of the hooks.
cudaRunpathProvide() { # TOOL BINARY
    cudaRunpathBinary["$1"]=$2
}

# Runs TOOL over the outputs at the end of fixup. COMPAT is a compat directory to
# use where the setting cudaCompat names none.
cudaRunpathRegister() { # TOOL BINARY [COMPAT]
    cudaRunpathProvide "$1" "$2"
    cudaRunpathAsked["$1"]=1
    if [[ -n ${3-} ]]; then
        cudaRunpathCompat["$3"]=1
    fi
    if [[ -z ${cudaRunpathListening-} ]]; then
        declare -g cudaRunpathListening=1
        postHooks+=(cudaRunpathComeLast)
        preFixupHooks+=(cudaRunpathBeforeFixup)
        exitHooks+=(cudaRunpathFarewell)
    fi
    cudaRunpathComeLast
}

# Moves our entry to the end of postFixupHooks, where it comes after what other
# hooks and the package itself have put there. runHook expands that list once, when
# it starts, so an entry cannot move itself then. Hence this is done at every
# moment before: when a hook is sourced, when all are (postHooks), when fixup
# starts, and as the last thing that it does for each output.
cudaRunpathComeLast() {
    cudaRunpathMoveLast fixupOutputHooks cudaRunpathComeLast
    cudaRunpathMoveLast postFixupHooks cudaRunpathFixup
}

cudaRunpathMoveLast() { # ARRAY ENTRY
    local -n __crList=$1
    local -a __crOthers=()
    local __crEntry
    for __crEntry in ${__crList+"${__crList[@]}"}; do
        if [[ $__crEntry != "$2" ]]; then
            __crOthers+=("$__crEntry")
        fi
    done
    __crList=(${__crOthers+"${__crOthers[@]}"} "$2")
}

cudaRunpathBeforeFixup() {
    cudaRunpathComeLast
    cudaRunpathCollectStubs
}

# The contract's order: what a package links against goes first, the check last.
cudaRunpathFixup() {
    local __crTool
    declare -g cudaRunpathRan=1
    cudaRunpathCollectStubs
    for __crTool in stubReplace autoAddDriverRunpath addCudaCompatRunpath noRunpathAmbiguity; do
        if [[ -n ${cudaRunpathAsked["$__crTool"]-} ]]; then
            cudaRunpathRun "$__crTool"
        fi
    done
    cudaRunpathOfferStubs
}

# Whoever switches fixup off, by dontFixup or by phases of their own, switches us
# off; the log says so.
cudaRunpathFarewell() {
    if [[ -z ${cudaRunpathRan-} && -z ${IN_NIX_SHELL-} ]]; then
        cudaRunpathHook "no postFixup hooks ran in this build (dontFixup, or phases without them): ${!cudaRunpathAsked[*]} did nothing"
    fi
}

# ---------------------------------------------------------------- settings

# Appends the words of the setting NAME to the array: an array's elements as they
# are, a string split on white space. Patterns such as *.so stay what they are
# (setup.sh has nullglob on).
cudaRunpathWords() { # ARRAY NAME
    local -
    set -f
    local IFS=$' \t\n' __crWord
    local -n __crTo=$1 __crFrom=$2
    if [[ -z ${__crFrom+x} && -z ${__crFrom[*]-} ]]; then
        return 0
    fi
    case $(declare -p "$2" 2>/dev/null) in
    "declare -A"*)
        cudaRunpathFailure "$2 must be a string or a list, not an attribute set"
        exit 1
        ;;
    "declare -a"*)
        __crTo+=("${__crFrom[@]}")
        ;;
    *)
        # shellcheck disable=SC2206  # split on purpose, globbing is off
        for __crWord in $__crFrom; do
            __crTo+=("$__crWord")
        done
        ;;
    esac
}

# Says whether TOOL is switched off, and by which variable.
cudaRunpathIsOff() { # TOOL
    local __crSwitch
    local -a __crSwitches=("dont${1^}")
    if [[ $1 == autoAddDriverRunpath ]]; then
        __crSwitches+=(dontUseAutoAddDriverRunpath)
    fi
    for __crSwitch in "${__crSwitches[@]}"; do
        if [[ -n ${!__crSwitch-} ]]; then
            cudaRunpathHook "$1: switched off by $__crSwitch"
            return 0
        fi
    done
    return 1
}

# Puts the compat directory into cudaRunpathCompatDir: the setting cudaCompat,
# where it is set at all, else the one that came with the hook.
cudaRunpathFindCompat() {
    declare -g cudaRunpathCompatDir=
    if [[ -n ${cudaCompat+x} ]]; then
        cudaRunpathCompatDir=$cudaCompat
    elif ((${#cudaRunpathCompat[@]} > 1)); then
        cudaRunpathFailure "addCudaCompatRunpath came with different compat directories: ${!cudaRunpathCompat[*]}; say which one counts by setting cudaCompat"
        exit 1
    else
        cudaRunpathCompatDir=${!cudaRunpathCompat[*]}
    fi
}

# Puts TOOL's arguments into cudaRunpathArguments. All tools get the same settings.
cudaRunpathArguments() { # TOOL
    local __crIgnored
    local -a __crIgnore=()
    declare -ga cudaRunpathArguments=(--jobs "${NIX_BUILD_CORES:-1}")
    if [[ -n ${driverLink-} ]]; then
        cudaRunpathArguments+=(--driver-link "${driverLink%/}/lib")
    fi
    cudaRunpathFindCompat
    if [[ -n $cudaRunpathCompatDir ]]; then
        cudaRunpathArguments+=(--compat "$cudaRunpathCompatDir")
    fi
    if [[ $1 == noRunpathAmbiguity ]]; then
        cudaRunpathWords __crIgnore noRunpathAmbiguityIgnore
        for __crIgnored in "${__crIgnore[@]}"; do
            cudaRunpathArguments+=(--ignore "$__crIgnored")
        done
    elif [[ -n ${driverLinkPosition-} ]]; then
        cudaRunpathArguments+=(--position "$driverLinkPosition")
    fi
    cudaRunpathWords cudaRunpathArguments "${1}Flags"
    cudaRunpathWords cudaRunpathArguments "${1}FlagsArray"
}

# Puts into cudaRunpathOutputs the outputs that are there. One that is a link to
# another store path is not ours to edit.
cudaRunpathOutputs() {
    local IFS=$' \t\n' __crNames __crOutput
    declare -ga cudaRunpathOutputs=()
    __crNames=$(getAllOutputNames) || exit
    for __crOutput in $__crNames; do
        if [[ -e ${!__crOutput-} && ! -L ${!__crOutput} ]]; then
            cudaRunpathOutputs+=("${!__crOutput}")
        fi
    done
}

# ------------------------------------------------------------------ running

# Runs TOOL, with more arguments in front of its own, over the outputs.
cudaRunpathRun() { # TOOL [ARGUMENT…]
    local __crTool=$1 __crStatus
    shift
    if cudaRunpathIsOff "$__crTool"; then
        return 0
    fi
    cudaRunpathOutputs
    if ((${#cudaRunpathOutputs[@]} == 0)); then
        cudaRunpathHook "$__crTool: no outputs to look at"
        return 0
    fi
    cudaRunpathArguments "$__crTool"
    if [[ $__crTool == addCudaCompatRunpath && -z $cudaRunpathCompatDir ]]; then
        cudaRunpathHook "$__crTool: there is no compat package for this platform, nothing to add"
        return 0
    fi
    if [[ $__crTool == stubReplace && -n ${cudaRunpathStubs-} ]]; then
        cudaRunpathArguments+=(--offer "$cudaRunpathStubs")
    fi
    cudaRunpathHook "$__crTool: ${cudaRunpathOutputs[*]}"
    "${cudaRunpathBinary["$__crTool"]}" "$@" "${cudaRunpathArguments[@]}" -- "${cudaRunpathOutputs[@]}" || {
        __crStatus=$?
        cudaRunpathFailure "$__crTool failed with exit status $__crStatus; what it said is above"
        exit "$__crStatus"
    }
}

# For shell functions that a package calls by hand: runs TOOL on files. Links are
# followed, since packages pass $out/lib/*.so; other files than ELF are left alone.
cudaRunpathRunOn() { # FUNCTION TOOL NUMBER-OF-ARGUMENTS [ARGUMENT…] [FILE…]
    local __crFunction=$1 __crTool=$2 __crCount=$3 __crFile
    shift 3
    local -a __crMore=("${@:1:__crCount}") __crFiles=()
    shift "$__crCount"
    for __crFile in "$@"; do
        if [[ -L $__crFile ]]; then
            __crFile=$(readlink -f -- "$__crFile") || return
        fi
        if [[ ! -e $__crFile ]]; then
            cudaRunpathFailure "$__crFunction: $__crFile does not exist"
            return 1
        fi
        __crFiles+=("$__crFile")
    done
    if ((${#__crFiles[@]} == 0)); then
        return 0
    fi
    cudaRunpathArguments "$__crTool"
    "${cudaRunpathBinary["$__crTool"]}" "${__crMore[@]}" "${cudaRunpathArguments[@]}" -- "${__crFiles[@]}" || return
}

# --------------------------------------------------- stubs for check phases
# The build sandbox has no driver, so what needs libcuda.so.1 does not start there
# once the stubs are out of its run path. With stubReplaceForChecks, directories
# of links to the stubs by soname are offered to the check phases after fixup.

# Before fixup's shrink step, which drops stub directories (they hold libcuda.so,
# not libcuda.so.1) and with them the knowledge of where the stubs are.
cudaRunpathCollectStubs() {
    if [[ -z ${stubReplaceForChecks-} || -z ${cudaRunpathAsked[stubReplace]-} || -n ${dontStubReplace-} || -n ${cudaRunpathStubs-} ]]; then
        return 0
    fi
    declare -g cudaRunpathStubs="${NIX_BUILD_TOP:-${TMPDIR:-/tmp}}/cuda-runpath-stubs"
    mkdir -p "$cudaRunpathStubs" || exit
    cudaRunpathRun stubReplace --dry-run
}

# Wraps the check phases that come after fixupPhase. A phase is a variable of its
# name, else a function; we make it a variable that calls cudaRunpathCheckPhase.
cudaRunpathOfferStubs() {
    local IFS=$' \t\n' __crPhase __crAfter=
    if [[ -z ${cudaRunpathStubs-} ]]; then
        return 0
    fi
    # shellcheck disable=SC2048  # phases is a string or an array of words
    for __crPhase in ${phases[*]-}; do
        if [[ $__crPhase == fixupPhase ]]; then
            __crAfter=1
        elif [[ -n $__crAfter && $__crPhase == *CheckPhase && ${!__crPhase-} != cudaRunpathCheckPhase* ]]; then
            declare -g "cudaRunpathOriginal_$__crPhase=${!__crPhase:-$__crPhase}"
            declare -g "$__crPhase=cudaRunpathCheckPhase $__crPhase"
        fi
    done
}

cudaRunpathCheckPhase() { # PHASE
    local __crOriginal="cudaRunpathOriginal_$1" __crDriver="${driverLink:-/run/opengl-driver}/lib"
    if [[ -e $__crDriver/libcuda.so.1 ]]; then
        cudaRunpathHook "$1: the driver is in $__crDriver, no stubs needed"
    else
        cudaRunpathHook "$1: offering the stubs in $cudaRunpathStubs"
        # Last, so that a package's own stand-in for the driver wins.
        local -x LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cudaRunpathStubs"
    fi
    eval "${!__crOriginal}"
}
