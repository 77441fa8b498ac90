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
    for __crEntry in "${postFixupHooks[@]}"; do
        if [[ $__crEntry == autoPatchelfPostFixup ]]; then
            return 0
        fi
    done
    # shellcheck disable=SC2154  # setup.sh sets it where it sources a hook
    addEnvHooks "$targetOffset" gatherLibraries
    postFixupHooks+=(autoPatchelfPostFixup)
    if [[ -n ${cudaRunpathListening-} ]]; then
        cudaRunpathPlainly cudaRunpathComeLast
    fi
}

# An env hook: the libraries of a dependency.
gatherLibraries() { # PACKAGE
    autoPatchelfLibs+=("$1/lib")
}

# addAutoPatchelfSearchPath [--no-recurse] [--] PATH…: every directory there that holds
# shared objects is searched from now on.
addAutoPatchelfSearchPath() {
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
        command find "$@" "${__crDepth[@]}" ! -type d \( -name '*.so' -o -name '*.so.*' \) -printf '%h\0' | LC_ALL=C command sort -zu
    )
    extraAutoPatchelfLibs+=("${__crFound[@]}")
}

# autoPatchelf [--no-recurse] [--] PATH…
autoPatchelf() {
    cudaRunpathPlainly cudaRunpathPatchelf "$@"
}

cudaRunpathPatchelf() {
    local __crWord __crTogether=
    local -a __crFlags=() __crIgnore=() __crAppend=() __crRuntime=() __crPatchelf=()
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
    # nixpkgs' function appends each setting to a global array, and packages fill those.
    cudaRunpathWords __crIgnore ignoreMissingDepsArray autoPatchelfIgnoreMissingDeps
    cudaRunpathWords __crAppend appendRunpathsArray appendRunpaths
    cudaRunpathWords __crRuntime runtimeDependenciesArray runtimeDependencies
    cudaRunpathWords __crPatchelf patchelfFlagsArray patchelfFlags
    for __crWord in "${__crIgnore[@]}"; do
        if [[ $__crWord == 1 ]]; then
            cudaRunpathWarning "autoPatchelf: autoPatchelfIgnoreMissingDeps = true is deprecated: write [ \"*\" ], or better the names"
            __crIgnore=("*")
            break
        fi
    done
    cudaRunpathSwitch __crFlags autoPatchelfRelativeRpaths --relativize-rpath
    cudaRunpathSwitch __crFlags cudaOpened --opened
    # stdenv's audit of run paths has been before.
    if [[ -z ${noAuditTmpdir-} && -n ${NIX_BUILD_TOP-} ]]; then
        __crFlags+=(--temporary "$NIX_BUILD_TOP")
    fi
    # What our other hooks ask for, if flags of their own do not ask for more.
    cudaRunpathChoose
    for __crWord in "${cudaRunpathEditors[@]}"; do
        if [[ $__crWord != addCudaCompatRunpath ]]; then
            __crFlags+=(--expect-driver)
        fi
        if [[ -z ${cudaRunpathAlone["$__crWord"]-} ]]; then
            __crFlags+=(--tool "$__crWord")
            __crTogether=1
        fi
    done
    if [[ -n $__crTogether ]]; then
        cudaRunpathFindPlaces
        __crFlags+=("${cudaRunpathPlaces[@]}")
        if [[ -n ${driverLinkPosition-} ]]; then
            __crFlags+=(--position "$driverLinkPosition")
        fi
    fi
    cudaRunpathWords __crFlags autoPatchelfFlagsArray autoPatchelfFlags
    # The interpreter and the C library: the standard environment's, else the hook's.
    local __crBintools=${NIX_BINTOOLS:-${cudaRunpathBintools-}}
    if [[ -z $__crBintools && " ${__crFlags[*]}" != *" --interpreter"* ]]; then
        cudaRunpathFailure "autoPatchelf: nothing says which interpreter and C library programs get: \$NIX_BINTOOLS is not set. Add autoPatchelfHook to nativeBuildInputs, which brings one, or autoPatchelfFlags = [ \"--interpreter=…\" ]"
        return 1
    fi
    NIX_BINTOOLS=$__crBintools "${cudaRunpathBinary[autoPatchelf]}" --jobs "${NIX_BUILD_CORES:-1}" \
        --ignore-missing "${__crIgnore[@]}" \
        --paths "$@" \
        --libs "${autoPatchelfLibs[@]}" "${extraAutoPatchelfLibs[@]}" \
        --runtime-dependencies "${__crRuntime[@]/%//lib}" \
        --append-rpaths "${__crAppend[@]}" \
        "${__crFlags[@]}" \
        --extra-args "${__crPatchelf[@]}"
}

autoPatchelfPostFixup() {
    if [[ -z ${dontAutoPatchelf-} ]]; then
        cudaRunpathPlainly cudaRunpathPatchelfOutputs
    fi
}

cudaRunpathPatchelfOutputs() {
    local __crNames __crOutput
    local -a __crPaths=()
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
