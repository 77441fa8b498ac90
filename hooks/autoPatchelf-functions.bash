# shellcheck shell=bash
# shellcheck disable=SC2154  # core.bash is in front of this
#
# nixpkgs' autoPatchelfHook: the functions autoPatchelf, addAutoPatchelfSearchPath and
# gatherLibraries, the arrays autoPatchelfLibs and extraAutoPatchelfLibs, and the entry
# autoPatchelfPostFixup, with the same arguments and settings. Where our other hooks are
# in the same build, what they ask for goes into the same edit.

# Registers it, at the moment that nixpkgs' hook has: an entry of postFixupHooks.
cudaRunpathAutoPatchelf() { # TOOLS [BINTOOLS]
    local __crEntry
    cudaRunpathProvide autoPatchelf "$1"
    if [[ -n ${2-} ]]; then
        declare -g cudaRunpathBintools=$2
    fi
    for __crEntry in ${postFixupHooks[@]+"${postFixupHooks[@]}"}; do
        if [[ $__crEntry == autoPatchelfPostFixup ]]; then
            return 0
        fi
    done
    # shellcheck disable=SC2154  # setup.sh sets it where it sources a hook
    addEnvHooks "$targetOffset" gatherLibraries
    postFixupHooks+=(autoPatchelfPostFixup)
    if [[ -n ${cudaRunpathListening-} ]]; then
        cudaRunpathComeLast
    fi
}

# An env hook: the libraries of a dependency.
gatherLibraries() { # PACKAGE
    autoPatchelfLibs+=("$1/lib")
}

# addAutoPatchelfSearchPath [--no-recurse] [--] PATH…: every directory there that holds
# shared objects is searched from now on.
addAutoPatchelfSearchPath() {
    local __crDir
    local -a __crDepth=() __crFound=()
    while (($#)); do
        case $1 in
        --)
            shift
            break
            ;;
        --no-recurse)
            __crDepth=(-maxdepth 1)
            shift
            ;;
        --*)
            cudaRunpathFailure "addAutoPatchelfSearchPath: unknown argument $1; it takes --no-recurse and paths"
            return 1
            ;;
        *) break ;;
        esac
    done
    mapfile -d '' -t __crFound < <(
        find "$@" "${__crDepth[@]}" ! -type d \( -name '*.so' -o -name '*.so.*' \) -printf '%h\0' | LC_ALL=C sort -zu
    )
    for __crDir in ${__crFound[@]+"${__crFound[@]}"}; do
        extraAutoPatchelfLibs+=("$__crDir")
    done
}

# autoPatchelf [--no-recurse] [--] PATH…
autoPatchelf() {
    local __crPattern __crTool
    local -a __crFlags=() __crIgnore=() __crAppend=() __crRuntime=() __crPatchelf=() __crOwn=()
    while (($#)); do
        case $1 in
        --)
            shift
            break
            ;;
        --no-recurse)
            __crFlags+=(--no-recurse)
            shift
            ;;
        --*)
            cudaRunpathFailure "autoPatchelf: unknown argument $1; it takes --no-recurse and paths"
            return 1
            ;;
        *) break ;;
        esac
    done
    if (($# == 0)); then
        cudaRunpathFailure "autoPatchelf: no path is given"
        return 1
    fi
    cudaRunpathWords __crIgnore autoPatchelfIgnoreMissingDeps
    cudaRunpathWords __crAppend appendRunpaths
    cudaRunpathWords __crRuntime runtimeDependencies
    cudaRunpathWords __crPatchelf patchelfFlags
    for __crPattern in ${__crIgnore[@]+"${__crIgnore[@]}"}; do
        if [[ $__crPattern == 1 ]]; then
            cudaRunpathWarning "autoPatchelf: autoPatchelfIgnoreMissingDeps = true is deprecated: write [ \"*\" ], or better the names"
            __crIgnore=("*")
            break
        fi
    done
    if [[ -n ${autoPatchelfRelativeRpaths-} ]]; then
        __crFlags+=(--relativize-rpath)
    fi
    # stdenv's audit of run paths has been before.
    if [[ -z ${noAuditTmpdir-} && -n ${NIX_BUILD_TOP-} ]]; then
        __crFlags+=(--temporary "$NIX_BUILD_TOP")
    fi
    # What our other hooks ask for, if flags of their own do not ask for more.
    for __crTool in stubReplace autoAddDriverRunpath addCudaCompatRunpath; do
        if [[ -z ${cudaRunpathAsked["$__crTool"]-} ]] || cudaRunpathIsOff "$__crTool"; then
            continue
        fi
        if [[ $__crTool != addCudaCompatRunpath ]]; then
            __crFlags+=(--expect-driver)
        fi
        __crOwn=()
        cudaRunpathWords __crOwn "${__crTool}Flags"
        cudaRunpathWords __crOwn "${__crTool}FlagsArray"
        cudaRunpathFindCompat
        if ((${#__crOwn[@]} == 0)) && [[ $__crTool != addCudaCompatRunpath || -n $cudaRunpathCompatDir ]]; then
            __crFlags+=(--tool "$__crTool")
        fi
    done
    if [[ " ${__crFlags[*]} " == *" --tool "* ]]; then
        cudaRunpathFindLink
        if [[ -n $cudaRunpathLinkDir ]]; then
            __crFlags+=(--driver-link "$cudaRunpathLinkDir/lib")
        fi
        if [[ -n $cudaRunpathCompatDir ]]; then
            __crFlags+=(--compat "$cudaRunpathCompatDir")
        fi
        if [[ -n ${driverLinkPosition-} ]]; then
            __crFlags+=(--position "$driverLinkPosition")
        fi
    fi
    cudaRunpathWords __crFlags autoPatchelfFlags
    # The interpreter and the C library: the standard environment's, else the hook's.
    local __crBintools=${NIX_BINTOOLS:-${cudaRunpathBintools-}}
    if [[ -z $__crBintools && " ${__crFlags[*]}" != *" --interpreter"* ]]; then
        cudaRunpathFailure "autoPatchelf: nothing says which interpreter and C library programs get: \$NIX_BINTOOLS is not set. Add autoPatchelfHook to nativeBuildInputs, which brings one, or autoPatchelfFlags = [ \"--interpreter=…\" ]"
        return 1
    fi
    NIX_BINTOOLS=$__crBintools "${cudaRunpathBinary[autoPatchelf]}" --jobs "${NIX_BUILD_CORES:-1}" \
        --ignore-missing ${__crIgnore[@]+"${__crIgnore[@]}"} \
        --paths "$@" \
        --libs ${autoPatchelfLibs[@]+"${autoPatchelfLibs[@]}"} ${extraAutoPatchelfLibs[@]+"${extraAutoPatchelfLibs[@]}"} \
        --runtime-dependencies ${__crRuntime+"${__crRuntime[@]/%//lib}"} \
        --append-rpaths ${__crAppend[@]+"${__crAppend[@]}"} \
        ${__crFlags[@]+"${__crFlags[@]}"} \
        --extra-args ${__crPatchelf[@]+"${__crPatchelf[@]}"}
}

autoPatchelfPostFixup() {
    local IFS=$' \t\n' __crNames __crOutput
    local -a __crPaths=()
    if [[ -n ${dontAutoPatchelf-} ]]; then
        return 0
    fi
    __crNames=$(getAllOutputNames) || exit
    for __crOutput in $__crNames; do
        if [[ $__crOutput != debug && -e ${!__crOutput-} ]]; then
            __crPaths+=("${!__crOutput}")
        fi
    done
    if ((${#__crPaths[@]} == 0)); then
        cudaRunpathHook "autoPatchelf: no outputs to look at"
        return 0
    fi
    autoPatchelf -- "${__crPaths[@]}" || {
        cudaRunpathFailure "autoPatchelf failed; what it said is above"
        exit 1
    }
}
