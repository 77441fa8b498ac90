# shellcheck shell=bash
#
# What the hooks share. Nix puts this text in front of each hook's own lines
# (hooks.nix), so it may be sourced many times in one build, in any order: it
# only defines functions and keeps what is in its tables. Values that differ from
# hook to hook come in as arguments of the registration, never by substitution
# into this text.
#
# A hook calls `cudaRunpathRegister TOOL TOOLS`. All that are registered run from
# one entry of postFixupHooks, cudaRunpathFixup, in the order of
# cudaRunpathOrder. That entry keeps itself last: see cudaRunpathComeLast.
#
# Names: outputs are shell variables too and may be called bin, lib or stubs, and
# every setting is one; so locals here start with __cr, functions and globals
# with cudaRunpath. Binaries are called by absolute path: a hook in buildInputs
# under strictDeps has no entry in PATH; other programs by `command`, since packages
# have functions called find. Failure is always an explicit exit: where a caller is in a
# condition, errexit does not work. What setup.sh and packages call goes through
# cudaRunpathPlainly, since packages set the shell as they like.

# Those that edit run paths, in the order in which they run, with whatever a package links
# against first; then what runs by itself: thinCuda, and those that check what these leave.
declare -ga cudaRunpathOrder=(stubReplace autoAddDriverRunpath addCudaCompatRunpath)
declare -ga cudaRunpathThen=(thinCuda noRunpathAmbiguity cudaCapabilitiesCheck)
# TOOL to the absolute path of its binary; and those that a hook asked for.
declare -gA cudaRunpathBinary cudaRunpathAsked
# Compat directories, driver links and GPUs that the hooks' derivations brought.
declare -gA cudaRunpathCompat cudaRunpathLinks cudaRunpathCapabilities
# For nixpkgs' hooks under their own names (cudaRunpathStandIn): TOOL to the function
# that nixpkgs runs on each file, and FUNCTION to the texts that it is known to have.
declare -gA cudaRunpathFunction cudaRunpathKnown
# Keeps what they have, and makes them empty rather than unset for nounset.
cudaRunpathBinary+=() cudaRunpathAsked+=() cudaRunpathCompat+=() cudaRunpathLinks+=() cudaRunpathCapabilities+=()
cudaRunpathFunction+=() cudaRunpathKnown+=()

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

# Not nixWarnLog, which says nothing unless NIX_DEBUG is set.
cudaRunpathWarning() { # MESSAGE
    if [[ -n ${NIX_LOG_FD-} ]] && declare -F nixLog >/dev/null; then
        nixLog "warning: $1"
    else
        printf 'WARNING: cudaRunpathWarning: %s\n' "$1" >&2
    fi
}

# Runs COMMAND with the shell's settings as they usually are: IFS, no noglob, nounset,
# posix or nocasematch. Nor does errexit work in it: a failure that counts is an exit.
cudaRunpathPlainly() { # COMMAND…
    local - IFS=$' \t\n' __crCase='' __crStatus=0
    set +efu +o posix
    if shopt -q nocasematch; then
        __crCase=1
        shopt -u nocasematch
    fi
    "$@" || __crStatus=$?
    if [[ -n $__crCase ]]; then
        shopt -s nocasematch
    fi
    return "$__crStatus"
}

# Makes TOOL's binary known to the shell functions of the hooks. TOOLS is the package
# that holds all of them. DRIVERLINK is nixpkgs' addDriverRunpath.driverLink where that
# is not the one that the tools choose by themselves.
cudaRunpathProvide() { # TOOL TOOLS [DRIVERLINK]
    cudaRunpathBinary["$1"]=$2/bin/$1
    cudaRunpathBinary[runpath]=$2/bin/runpath
    if [[ -n ${3-} ]]; then
        cudaRunpathLinks["$3"]=1
    fi
}

# Runs TOOL over the outputs at the end of fixup.
cudaRunpathRegister() { # TOOL TOOLS [DRIVERLINK]
    cudaRunpathProvide "$@"
    cudaRunpathAsked["$1"]=1
    cudaRunpathListen
}

# The compat directory that counts where the setting cudaCompat names none; or why
# nobody knows which one it is.
cudaRunpathBringCompat() { # DIRECTORY [WHY-UNKNOWN]
    if [[ -n $1 ]]; then
        cudaRunpathCompat["$1"]=1
    elif [[ -n ${2-} ]]; then
        declare -g cudaRunpathCompatUnknown=$2
    fi
}

# The GPUs that count where the setting cudaCapabilities names none.
cudaRunpathBringCapabilities() { # LIST
    if [[ -n $1 ]]; then
        cudaRunpathCapabilities["$1"]=1
    fi
}

cudaRunpathListen() {
    if [[ -z ${cudaRunpathListening-} ]]; then
        declare -g cudaRunpathListening=1
        postHooks+=("cudaRunpathPlainly cudaRunpathComeLast")
        preFixupHooks+=("cudaRunpathPlainly cudaRunpathBeforeFixup")
        exitHooks+=("cudaRunpathPlainly cudaRunpathFarewell")
    fi
    cudaRunpathPlainly cudaRunpathComeLast
}

# Moves our entry to the end of postFixupHooks, where it comes after what other
# hooks and the package itself have put there. runHook expands that list once, when
# it starts, so an entry cannot move itself then. Hence this is done at every
# moment before: when a hook is sourced, when all are (postHooks), when fixup
# starts, and as the last thing that it does for each output.
cudaRunpathComeLast() {
    cudaRunpathMoveLast fixupOutputHooks "cudaRunpathPlainly cudaRunpathAfterOutput"
    cudaRunpathMoveLast postFixupHooks "cudaRunpathPlainly cudaRunpathFixup"
    cudaRunpathTakeNotes
}

cudaRunpathAfterOutput() {
    cudaRunpathComeLast
    cudaRunpathTakeStandIns
}

cudaRunpathMoveLast() { # ARRAY ENTRY
    local -n __crList=$1
    local -a __crOthers=()
    local __crEntry
    for __crEntry in "${__crList[@]}"; do
        if [[ $__crEntry != "$2" ]]; then
            __crOthers+=("$__crEntry")
        fi
    done
    __crList=("${__crOthers[@]}" "$2")
}

cudaRunpathBeforeFixup() {
    cudaRunpathComeLast
    cudaRunpathCollectStubs
}

# One walk for all that edit run paths, where their own flags allow it; then the others.
cudaRunpathFixup() {
    local __crTool
    declare -g cudaRunpathRan=1
    cudaRunpathCollectStubs
    cudaRunpathTakeStandIns
    cudaRunpathChoose
    # A flag in one tool's settings is for that tool alone.
    if ((${#cudaRunpathAlone[@]})); then
        for __crTool in "${cudaRunpathEditors[@]}"; do
            cudaRunpathRun "$__crTool"
        done
    elif ((${#cudaRunpathEditors[@]})); then
        cudaRunpathRun "${cudaRunpathEditors[@]}"
    elif [[ -n ${cudaRunpathNotesTaken-} ]]; then
        _generateLDCacheAllOutputs # nothing of ours edits
    fi
    cudaRunpathNoteOpened
    for __crTool in "${cudaRunpathThen[@]}"; do
        if [[ -n ${cudaRunpathAsked["$__crTool"]-} ]] && ! cudaRunpathIsOff "$__crTool"; then
            cudaRunpathRun "$__crTool"
        fi
    done
    cudaRunpathOfferStubs
}

# Puts into cudaRunpathEditors, in their order, the tools that edit, that a hook asked
# for and that nothing switches off, and into cudaRunpathAlone those with flags of their own.
cudaRunpathChoose() {
    local __crTool
    local -a __crFlags=()
    declare -ga cudaRunpathEditors=()
    declare -gA cudaRunpathAlone=()
    for __crTool in "${cudaRunpathOrder[@]}"; do
        if [[ -z ${cudaRunpathAsked["$__crTool"]-} ]] || cudaRunpathIsOff "$__crTool"; then
            continue
        fi
        if [[ $__crTool == addCudaCompatRunpath ]] && ! cudaRunpathHasCompat; then
            continue
        fi
        cudaRunpathEditors+=("$__crTool")
        __crFlags=()
        cudaRunpathWords __crFlags "${__crTool}Flags" "${__crTool}FlagsArray"
        if ((${#__crFlags[@]})); then
            cudaRunpathAlone["$__crTool"]=1
        fi
    done
}

# Where stdenv writes resolution notes (nixpkgs' generate-ld-cache.sh, whose entry comes to
# postFixupHooks in preFixup), our walk does it, in one edit with the run paths that it
# leaves. A note that was written before them would be gone, or lead past the driver.
cudaRunpathTakeNotes() {
    local __crEntry
    local -a __crRest=()
    for __crEntry in "${postFixupHooks[@]}"; do
        if [[ $__crEntry == _generateLDCacheAllOutputs ]]; then
            declare -g cudaRunpathNotesTaken=1
        else
            __crRest+=("$__crEntry")
        fi
    done
    postFixupHooks=("${__crRest[@]}")
}

# Whether files get resolution notes: with stdenv's hook unless its own switches say no, else
# where the setting cudaResolutionNote is true.
cudaRunpathWantsNotes() {
    if [[ -z ${cudaRunpathNotesTaken-} ]]; then
        [[ -n ${cudaResolutionNote-} ]]
    elif [[ -n ${dontGenerateLDCache-} ]]; then
        return 1
    else
        [[ -z ${dontPatchELF-} ]] || { [[ -z ${dontAutoPatchelf-} ]] && declare -F autoPatchelf >/dev/null; }
    fi
}

# Whoever switches fixup off, by dontFixup or by phases of their own, switches us
# off; the log says so.
cudaRunpathFarewell() {
    if [[ -z ${cudaRunpathRan-} && -z ${IN_NIX_SHELL-} ]]; then
        cudaRunpathHook "no postFixup hooks ran in this build (dontFixup, or phases without them): ${!cudaRunpathAsked[*]} did nothing"
    fi
}

# ------------------------------------------- in place of nixpkgs' hooks
# A package may switch nixpkgs' hooks off by what they are made of: by taking their
# entry out of postFixupHooks, or by giving the function that runs on each file
# another body. So under nixpkgs' names the same entries are there, until fixup takes
# them over: then the functions that are as they were run as our tools, all at once.
# Where fixupPhase is the package's own and gives no moment for that, the entries run
# as they do in nixpkgs, a file at a time, on the function that our hook brings.

# TOOL stands for nixpkgs' entry "autoFixElfFiles FUNCTION". FILE is a setup hook that
# may bring another FUNCTION, nixpkgs' own, which does not count as a change.
cudaRunpathStandIn() { # TOOL TOOLS DRIVERLINK FUNCTION [FILE]
    local __crEntry
    cudaRunpathProvide "$1" "$2" "$3"
    cudaRunpathFunction["$1"]=$4
    cudaRunpathKnown["$4"]=$(declare -f "$4")
    if [[ -n ${5-} ]]; then
        # shellcheck disable=SC1090  # nixpkgs' file
        cudaRunpathKnown["$4"]+=$'\n'$(source "$5" >/dev/null 2>&1 && declare -f "$4")
    fi
    cudaRunpathListen
    for __crEntry in "${postFixupHooks[@]}"; do
        if [[ $__crEntry == "autoFixElfFiles $4" ]]; then return 0; fi
    done
    postFixupHooks+=("autoFixElfFiles $4")
    cudaRunpathComeLast
}

# Takes the entries that are still there out of postFixupHooks, and notes their tools.
cudaRunpathTakeStandIns() {
    local __crTool __crEntry __crName
    local -a __crRest=()
    local -A __crSeen=()
    if ((${#cudaRunpathFunction[@]} == 0)) || [[ -n ${cudaRunpathTaken-} ]]; then
        return 0
    fi
    declare -g cudaRunpathTaken=1
    for __crEntry in "${postFixupHooks[@]}"; do
        for __crTool in "${!cudaRunpathFunction[@]}"; do
            __crName=${cudaRunpathFunction["$__crTool"]}
            if [[ $__crEntry != "autoFixElfFiles $__crName" ]]; then
                continue
            fi
            __crSeen["$__crTool"]=1
            if [[ ${cudaRunpathKnown["$__crName"]} == *"$(declare -f "$__crName")"* ]]; then
                cudaRunpathAsked["$__crTool"]=1
                continue 2
            fi
            cudaRunpathHook "$__crTool: $__crName is the package's own and runs in its place"
        done
        __crRest+=("$__crEntry")
    done
    for __crTool in "${!cudaRunpathFunction[@]}"; do
        if [[ -z ${__crSeen["$__crTool"]-} ]]; then
            cudaRunpathHook "$__crTool: switched off: 'autoFixElfFiles ${cudaRunpathFunction["$__crTool"]}' is no longer in postFixupHooks"
        fi
    done
    postFixupHooks=("${__crRest[@]}")
}

# ---------------------------------------------------------------- settings

# Appends the words of the settings to the array: an array's elements as they are, a
# string split on white space. Patterns such as *.so stay what they are (setup.sh has
# nullglob on).
cudaRunpathWords() { # ARRAY NAME…
    local -
    set -f
    local -n __crTo=$1
    local __crName
    shift
    for __crName in "$@"; do
        local -n __crFrom=$__crName
        # shellcheck disable=SC2206  # split on purpose, globbing is off
        case $(declare -p "$__crName" 2>/dev/null) in
        "declare -A"*)
            cudaRunpathFailure "$__crName must be a string or a list, not an attribute set"
            exit 1
            ;;
        "declare -a"*) __crTo+=("${__crFrom[@]}") ;;
        *) __crTo+=($__crFrom) ;;
        esac
    done
}

# Appends FLAG to the array where SETTING is true.
cudaRunpathSwitch() { # ARRAY SETTING FLAG
    local -n __crFlagsTo=$1
    if [[ -n ${!2-} ]]; then
        __crFlagsTo+=("$3")
    fi
}

# Says whether TOOL is switched off, and by which variable.
cudaRunpathIsOff() { # TOOL
    local __crSwitch
    local -a __crSwitches=("dont${1^}")
    if [[ $1 == autoAddDriverRunpath ]]; then
        __crSwitches+=(dontUseAutoAddDriverRunpath dontUseAutoAddOpenGLRunpath)
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

# Puts into cudaRunpathGPUs the list of GPUs: the setting cudaCapabilities, where it is
# set at all, else what came with the hook.
cudaRunpathFindCapabilities() {
    local -a __crList=()
    declare -g cudaRunpathGPUs
    # An empty array, too, is the package's word.
    # shellcheck disable=SC2154 # a setting
    if declare -p cudaCapabilities &>/dev/null; then
        cudaRunpathWords __crList cudaCapabilities
        cudaRunpathGPUs=${__crList[*]}
    elif ((${#cudaRunpathCapabilities[@]} > 1)); then
        cudaRunpathFailure "the hooks came with different lists of GPUs: ${!cudaRunpathCapabilities[*]}; say which one counts by setting cudaCapabilities"
        exit 1
    else
        cudaRunpathGPUs=${!cudaRunpathCapabilities[*]}
    fi
}

# Puts into cudaRunpathLinkDir the directory that the tools are told of, or nothing.
cudaRunpathFindLink() {
    declare -g cudaRunpathLinkDir=
    if [[ -n ${driverLink-} ]]; then
        cudaRunpathLinkDir=${driverLink%/}
    elif ((${#cudaRunpathLinks[@]} > 1)); then
        cudaRunpathFailure "the hooks came with different driver links: ${!cudaRunpathLinks[*]}; say which one counts by setting driverLink"
        exit 1
    else
        cudaRunpathLinkDir=${!cudaRunpathLinks[*]}
    fi
    if [[ $cudaRunpathLinkDir == */lib ]]; then
        cudaRunpathFailure "driverLink is '$cudaRunpathLinkDir', which must be the directory without its last part, lib: '${cudaRunpathLinkDir%/lib}'"
        exit 1
    fi
}

# Whether there is a compat directory; where nobody knows, the build fails.
cudaRunpathHasCompat() {
    cudaRunpathFindCompat
    if [[ -n $cudaRunpathCompatDir ]]; then
        return 0
    elif [[ -z ${cudaCompat+x} && -n ${cudaRunpathCompatUnknown-} ]]; then
        cudaRunpathFailure "addCudaCompatRunpath: $cudaRunpathCompatUnknown; set cudaCompat to its directory, or to nothing for none"
        exit 1
    fi
    if [[ -n ${cudaCompat+x} ]]; then
        cudaRunpathHook "addCudaCompatRunpath: cudaCompat is empty, nothing to add"
    else
        cudaRunpathHook "addCudaCompatRunpath: there is no compat package for this platform, nothing to add"
    fi
    return 1
}

# Puts into cudaRunpathPlaces the arguments that say where the driver's and the compat
# package's libraries are. All tools get the same.
cudaRunpathFindPlaces() {
    declare -ga cudaRunpathPlaces=()
    cudaRunpathFindLink
    if [[ -n $cudaRunpathLinkDir ]]; then
        cudaRunpathPlaces+=(--driver-link "$cudaRunpathLinkDir/lib")
    fi
    cudaRunpathFindCompat
    if [[ -n $cudaRunpathCompatDir ]]; then
        cudaRunpathPlaces+=(--compat "$cudaRunpathCompatDir")
    fi
}

# Puts the arguments of TOOLS into cudaRunpathArguments.
cudaRunpathArguments() { # TOOL…
    local __crIgnored
    local -a __crIgnore=()
    declare -ga cudaRunpathArguments=(--jobs "${NIX_BUILD_CORES:-1}")
    # Real packages hold broken ELF files on purpose, as test data.
    if [[ -z ${cudaRunpathStrict-} ]]; then
        cudaRunpathArguments+=(--malformed warn)
    fi
    if [[ $1 == cudaCapabilitiesCheck ]]; then
        cudaRunpathArguments+=(--for "$cudaRunpathGPUs")
        cudaRunpathWords cudaRunpathArguments cudaCapabilitiesCheckFlags cudaCapabilitiesCheckFlagsArray
        return 0
    fi
    if [[ $1 == thinCuda ]]; then
        if [[ -n ${cudaRunpathGPUs-} ]]; then
            cudaRunpathArguments+=(--for "$cudaRunpathGPUs")
        fi
        if [[ -n ${cudaBlankOptions-} ]]; then
            cudaRunpathArguments+=(--blank-options)
        fi
        cudaRunpathWords cudaRunpathArguments thinCudaFlags thinCudaFlagsArray
        return 0
    fi
    cudaRunpathFindPlaces
    cudaRunpathArguments+=("${cudaRunpathPlaces[@]}")
    if [[ $1 == noRunpathAmbiguity ]]; then
        cudaRunpathArguments+=(--nix-build)
        cudaRunpathWords __crIgnore noRunpathAmbiguityIgnore
        for __crIgnored in "${__crIgnore[@]}"; do
            cudaRunpathArguments+=(--ignore "$__crIgnored")
        done
    else
        if [[ -n ${driverLinkPosition-} ]]; then
            cudaRunpathArguments+=(--position "$driverLinkPosition")
        fi
        cudaRunpathSwitch cudaRunpathArguments clearExecutableStacks --clear-execstack
        if cudaRunpathWantsNotes; then
            cudaRunpathArguments+=(--resolution-note)
        fi
    fi
    while (($#)); do
        cudaRunpathWords cudaRunpathArguments "${1}Flags" "${1}FlagsArray"
        shift
    done
}

# Puts into cudaRunpathOutputs the outputs that are there. One that is a link to
# another store path is not ours to edit.
cudaRunpathOutputs() {
    local __crNames __crOutput
    declare -ga cudaRunpathOutputs=()
    __crNames=$(getAllOutputNames) || exit
    for __crOutput in $__crNames; do
        if [[ -e ${!__crOutput-} && ! -L ${!__crOutput} ]]; then
            cudaRunpathOutputs+=("${!__crOutput}")
        fi
    done
}

# ------------------------------------------------------------------ running

# Runs TOOLS over the outputs: one process and one walk, with cudaRunpathMore in front
# of their own arguments.
cudaRunpathRun() { # TOOL…
    local __crNames=$* __crBinary=${cudaRunpathBinary["$1"]} __crStatus
    local -a __crCommand=()
    cudaRunpathOutputs
    if ((${#cudaRunpathOutputs[@]} == 0)); then
        cudaRunpathHook "$__crNames: no outputs to look at"
        return 0
    fi
    declare -g cudaRunpathGPUs=
    if [[ $1 == cudaCapabilitiesCheck || $1 == thinCuda && (-n ${cudaThin-} || -z ${cudaBlankOptions-}) ]]; then
        cudaRunpathFindCapabilities
        if [[ -z $cudaRunpathGPUs ]]; then
            cudaRunpathHook "$1: neither the setting cudaCapabilities nor the CUDA set names GPUs: nothing to do for them"
            if [[ $1 == cudaCapabilitiesCheck || -z ${cudaBlankOptions-} ]]; then return 0; fi
        fi
    fi
    cudaRunpathArguments "$@"
    if [[ " $__crNames " == *" stubReplace "* && -n ${cudaRunpathStubs-} ]]; then
        cudaRunpathArguments+=(--offer "$cudaRunpathStubs")
    fi
    if (($# > 1)); then
        __crBinary=${cudaRunpathBinary[runpath]}
        __crCommand=(normalize)
        while (($#)); do
            __crCommand+=(--tool "$1")
            shift
        done
    fi
    __crNames=${__crNames// /, }
    cudaRunpathHook "$__crNames: ${cudaRunpathOutputs[*]}"
    "$__crBinary" "${__crCommand[@]}" "${cudaRunpathMore[@]}" "${cudaRunpathArguments[@]}" -- "${cudaRunpathOutputs[@]}" || {
        __crStatus=$?
        cudaRunpathFailure "$__crNames failed with exit status $__crStatus; what it said is above"
        exit "$__crStatus"
    }
}

# With cudaOpened: says what autoPatchelf would put in for CUDA's libraries that files open
# by name and that inputs have. These tools leave entries that are not theirs alone.
cudaRunpathNoteOpened() {
    local __crPackage __crFound
    local -a __crLibs=()
    if [[ -z ${cudaOpened-} ]]; then
        return 0
    fi
    # shellcheck disable=SC2154  # setup.sh's
    for __crPackage in "${pkgsHostTarget[@]}"; do
        if [[ -d $__crPackage/lib ]]; then
            __crLibs+=(--libs "$__crPackage/lib")
        fi
    done
    cudaRunpathOutputs
    if ((${#__crLibs[@]} == 0 || ${#cudaRunpathOutputs[@]} == 0)); then
        return 0
    fi
    cudaRunpathArguments
    __crFound=$("${cudaRunpathBinary[runpath]}" normalize --dry-run --opened "${__crLibs[@]}" "${cudaRunpathArguments[@]}" -- "${cudaRunpathOutputs[@]}" 2>&1 >/dev/null) || {
        cudaRunpathFailure "cudaOpened: $__crFound"
        exit 1
    }
    if [[ -n $__crFound ]]; then
        cudaRunpathHook "cudaOpened: left as they are; cudaRunpathAutoPatchelf = true, or autoPatchelfHook, would do this: $__crFound"
    fi
}

# For shell functions that a package calls by hand: runs TOOL on files. Links are
# followed, since packages pass $out/lib/*.so; files that are not ELF are skipped,
# and what is not there is a warning, unless cudaRunpathStrict is set.
cudaRunpathRunOn() { # FUNCTION TOOL NUMBER-OF-ARGUMENTS [ARGUMENT…] [FILE…]
    cudaRunpathPlainly cudaRunpathRunOnFiles "$@"
}

cudaRunpathRunOnFiles() {
    local __crFunction=$1 __crTool=$2 __crCount=$3 __crFile __crNamed
    shift 3
    local -a __crMore=("${@:1:__crCount}") __crFiles=()
    shift "$__crCount"
    for __crNamed in "$@"; do
        __crFile=$__crNamed
        if [[ -L $__crFile ]]; then
            __crFile=$(command readlink -m -- "$__crFile") || return
        fi
        if [[ -e $__crFile ]]; then
            __crFiles+=("$__crFile")
        elif [[ -n ${cudaRunpathStrict-} ]]; then
            cudaRunpathFailure "$__crFunction: $__crNamed does not exist"
            return 1
        else
            cudaRunpathWarning "$__crFunction: $__crNamed does not exist"
        fi
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
    if [[ -z ${stubReplaceForChecks-} || -z ${cudaRunpathAsked[stubReplace]-}${cudaRunpathFunction[stubReplace]-} || -n ${dontStubReplace-} || -n ${cudaRunpathStubs-} ]]; then
        return 0
    fi
    declare -g cudaRunpathStubs
    if [[ -n ${NIX_BUILD_TOP-} ]]; then
        cudaRunpathStubs=$NIX_BUILD_TOP/cuda-runpath-stubs
        command mkdir -p "$cudaRunpathStubs" || exit
    else
        # Outside a build, perhaps in /tmp: a name that nobody could foresee.
        cudaRunpathStubs=$(command mktemp -d "${TMPDIR:-/tmp}/cuda-runpath-stubs.XXXXXX") || exit
    fi
    local -a cudaRunpathMore=(--dry-run)
    cudaRunpathRun stubReplace
}

# Wraps the check phases that come after fixupPhase. A phase is a variable of its
# name, else a function; we make it a variable that calls cudaRunpathCheckPhase.
cudaRunpathOfferStubs() {
    local __crPhase __crAfter=
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
    local __crOriginal="cudaRunpathOriginal_$1" __crDriver
    cudaRunpathPlainly cudaRunpathFindLink
    __crDriver=${cudaRunpathLinkDir:-/run/opengl-driver}/lib
    if [[ -e $__crDriver/libcuda.so.1 ]]; then
        cudaRunpathHook "$1: the driver is in $__crDriver, no stubs needed"
    elif [[ -z $(command find "$cudaRunpathStubs" -mindepth 1 -print -quit) ]]; then
        cudaRunpathWarning "$1: no stubs to offer: no run path named any at the beginning of fixup (stubReplaceForChecks)"
    else
        cudaRunpathHook "$1: offering the stubs in $cudaRunpathStubs"
        # Last, so that a package's own stand-in for the driver wins.
        local -x LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cudaRunpathStubs"
    fi
    eval "${!__crOriginal}"
}
