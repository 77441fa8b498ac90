# shellcheck shell=bash
# shellcheck disable=SC1090,SC1091,SC2034,SC2048,SC2086,SC2123,SC2154,SC2178,SC2206
# (the variables come from the derivation, and lists in them are split on purpose)
#
# The build environment of the stand-in: what a package sees of nixpkgs'
# stdenv/generic/setup.sh when it looks through its hooks, phases, dependency
# offsets, outputs and structured attributes. Behaviour is nixpkgs'; the text is
# not. What is missing, packages of this repository do not use: patching and
# unpacking of archives, configure scripts.

set -eu
set -o pipefail
shopt -s inherit_errexit nullglob

# ---------------------------------------------------------------- outputs

if [[ -n ${NIX_ATTRS_JSON_FILE-} || -n ${NIX_ATTRS_SH_FILE-} ]]; then
    __structuredAttrs=1
    for __name in "${!outputs[@]}"; do
        export "$__name=${outputs[$__name]}"
    done
    for __name in "${!env[@]}"; do
        export "$__name=${env[$__name]}"
    done
    unset __name
else
    __structuredAttrs=
    : "${outputs:=out}"
fi

getAllOutputNames() {
    if [[ -n $__structuredAttrs ]]; then
        printf '%s\n' "${!outputs[*]}"
    else
        printf '%s\n' "$outputs"
    fi
}

# -------------------------------------------------------------------- log
# nixLog prefixes a message with the function that called it, or with the
# implicit hook's name; the levelled ones obey NIX_DEBUG. All are silent where
# NIX_LOG_FD is unset, as in nix-shell.

__logAs() { # LEVEL LABEL CALLER MESSAGE
    if [[ -z ${NIX_LOG_FD-} ]] || ((${NIX_DEBUG:-0} < $1)); then return 0; fi
    local caller=$3
    if [[ $caller == _callImplicitHook ]]; then caller=${hookName-$caller}; fi
    printf '%s%s: %s\n' "${2:+$2: }" "$caller" "$4" >&"$NIX_LOG_FD"
}
nixLog() { __logAs 0 '' "${FUNCNAME[1]}" "$*"; }
nixErrorLog() { __logAs 0 ERROR "${FUNCNAME[1]}" "$*"; }
nixWarnLog() { __logAs 1 WARN "${FUNCNAME[1]}" "$*"; }
nixNoticeLog() { __logAs 2 NOTICE "${FUNCNAME[1]}" "$*"; }
nixInfoLog() { __logAs 3 INFO "${FUNCNAME[1]}" "$*"; }
nixTalkativeLog() { __logAs 4 TALKATIVE "${FUNCNAME[1]}" "$*"; }
nixChattyLog() { __logAs 5 CHATTY "${FUNCNAME[1]}" "$*"; }
nixDebugLog() { __logAs 6 DEBUG "${FUNCNAME[1]}" "$*"; }

# ------------------------------------------------------------------ hooks
# `runHook xyz` runs the function or variable xyz, then each entry of xyzHooks.
# The list is expanded once: what an entry appends to it does not run any more.

__evalHook() {
    if declare -F "$1" >/dev/null; then "$@"; else eval "$1"; fi
}

_callImplicitHook() { # STATUS-IF-THERE-IS-NONE NAME
    local hookName=$2
    if declare -F "$2" >/dev/null; then
        "$2"
    elif [[ -n ${!2-} ]]; then
        eval "${!2}"
    else
        return "$1"
    fi
}

runHook() {
    local hookName=$1
    shift
    local list="${hookName%Hook}Hooks[@]" hook
    for hook in "_callImplicitHook 0 $hookName" ${!list+"${!list}"}; do
        __evalHook "$hook" "$@"
    done
}

runOneHook() {
    local hookName=$1
    shift
    local list="${hookName%Hook}Hooks[@]" hook
    for hook in "_callImplicitHook 1 $hookName" ${!list+"${!list}"}; do
        if __evalHook "$hook" "$@"; then return 0; fi
    done
    return 1
}

exitHandler() {
    local exitCode=$?
    set +e
    if ((exitCode == 0)); then runHook exitHook; else runHook failureHook; fi
    exit "$exitCode"
}
trap exitHandler EXIT

# -------------------------------------------------------------- variables

addToSearchPath() { # VARIABLE DIRECTORY
    if [[ -d $2 && ":${!1-}:" != *":$2:"* ]]; then
        export "$1=${!1:+${!1}:}$2"
    fi
}

__isArray() { [[ $(declare -p "$1" 2>/dev/null) == "declare -"*([^' '])a* ]]; }

appendToVar() { # VARIABLE WORD…
    local -n __var=$1
    shift
    if __isArray "${!__var}" || [[ -n $__structuredAttrs && -z ${__var+x} ]]; then
        __var=(${__var+"${__var[@]}"} "$@")
    else
        __var="${__var-} $*"
    fi
}

prependToVar() { # VARIABLE WORD…
    local -n __var=$1
    shift
    if __isArray "${!__var}" || [[ -n $__structuredAttrs && -z ${__var+x} ]]; then
        __var=("$@" ${__var+"${__var[@]}"})
    else
        __var="$* ${__var-}"
    fi
}

concatTo() { # ARRAY NAME…: strings are split, arrays kept
    local -
    set -f
    local -n __to=$1
    shift
    local __from
    for __from in "$@"; do
        local -n __it=${__from%%=*}
        if [[ -z ${__it[*]-} ]]; then
            if [[ $__from == *=* ]]; then __to+=("${__from#*=}"); fi
        elif __isArray "${__from%%=*}"; then
            __to+=("${__it[@]}")
        else
            __to+=($__it)
        fi
    done
}

isELF() {
    local magic
    IFS= read -r -d '' -n 4 magic <"$1" || true
    [[ $magic == $'\177ELF' ]]
}

isScript() {
    local magic
    LC_ALL=C IFS= read -r -d '' -n 2 magic <"$1" || true
    [[ $magic == '#!' ]]
}

# substitute IN OUT [--subst-var NAME | --subst-var-by NAME TEXT | --replace-fail OLD NEW]…
substitute() {
    local in=$1 out=$2 text name
    shift 2
    IFS= read -r -d '' text <"$in" || true
    while (($#)); do
        case $1 in
        --subst-var)
            text=${text//"@$2@"/"${!2}"}
            shift 2
            ;;
        --subst-var-by)
            text=${text//"@$2@"/"$3"}
            shift 3
            ;;
        --replace-fail)
            if [[ $text != *"$2"* ]]; then
                echo "substitute: '$2' is not in $in" >&2
                return 1
            fi
            text=${text//"$2"/"$3"}
            shift 3
            ;;
        *)
            echo "substitute: unknown argument $1" >&2
            return 1
            ;;
        esac
    done
    printf '%s' "$text" >"$out"
}

substituteInPlace() {
    local file=$1
    shift
    substitute "$file" "$file" "$@"
}

# Every exported variable whose name starts with a lower-case letter.
substituteAll() {
    local -a arguments=()
    local name
    for name in $(compgen -e); do
        if [[ $name == [a-z]* ]]; then arguments+=(--subst-var "$name"); fi
    done
    substitute "$1" "$2" "${arguments[@]}"
}

# ----------------------------------------------------------- dependencies
# An offset is a platform seen from the package: build -1, host 0, target 1. A
# dependency has two: of where it runs, and of what it makes code for. What it
# propagates is seen through it: below or at 0 from where it runs, above from
# what it makes code for. Out of -1…1 is dropped.

PATH=
HOST_PATH=
for i in $initialPath; do
    addToSearchPath PATH "$i/bin"
    if [[ -z ${strictDeps-} ]]; then addToSearchPath HOST_PATH "$i/bin"; fi
done
unset i
: "${SHELL:?}"

runHook preHook
runHook addInputsHook

declare -a pkgsBuildBuild=() pkgsBuildHost=() pkgsBuildTarget=()
declare -a pkgsHostHost=() pkgsHostTarget=() pkgsTargetTarget=()
declare -a envBuildBuildHooks=() envBuildHostHooks=() envBuildTargetHooks=()
declare -a envHostHostHooks=() envHostTargetHooks=() envTargetTargetHooks=()
declare -a preFixupHooks fixupOutputHooks preConfigureHooks postFixupHooks postUnpackHooks

# (host, target) as "H,T" to: the list of such packages, its env hooks, the file
# that names what a package propagates there, and the attributes of both kinds.
declare -A __pkgs=(
    ["-1,-1"]=pkgsBuildBuild ["-1,0"]=pkgsBuildHost ["-1,1"]=pkgsBuildTarget
    ["0,0"]=pkgsHostHost ["0,1"]=pkgsHostTarget ["1,1"]=pkgsTargetTarget
)
declare -A __envHooks=(
    ["-1,-1"]=envBuildBuildHook ["-1,0"]=envBuildHostHook ["-1,1"]=envBuildTargetHook
    ["0,0"]=envHostHostHook ["0,1"]=envHostTargetHook ["1,1"]=envTargetTargetHook
)
declare -A __propagatedFile=(
    ["-1,-1"]=propagated-build-build-deps ["-1,0"]=propagated-native-build-inputs
    ["-1,1"]=propagated-build-target-deps ["0,0"]=propagated-host-host-deps
    ["0,1"]=propagated-build-inputs ["1,1"]=propagated-target-target-deps
)
declare -a __offsets=("-1,-1" "-1,0" "-1,1" "0,0" "0,1" "1,1")

addEnvHooks() { # HOST-OFFSET HOOK…
    local __host=$1 __pair
    shift
    for __pair in "${__offsets[@]}"; do
        if [[ ${__pair%%,*} == "$__host" ]]; then
            local -n __hooks="${__envHooks[$__pair]}s"
            __hooks+=("$@")
        fi
    done
}

findInputs() { # PACKAGE HOST-OFFSET TARGET-OFFSET
    local pkg=$1 host=$2 target=$3 pair next word
    local -n __list=${__pkgs["$host,$target"]}
    case " ${__list[*]} " in *" $pkg "*) return 0 ;; esac
    __list+=("$pkg")
    if [[ ! -e $pkg ]]; then
        echo "build input $pkg does not exist" >&2
        exit 1
    fi
    for pair in "${__offsets[@]}"; do
        local relHost=${pair%%,*} relTarget=${pair##*,} nextHost nextTarget
        ((nextHost = relHost <= 0 ? relHost + host : relHost - 1 + target)) || true
        ((nextTarget = relTarget <= 0 ? relTarget + host : relTarget - 1 + target)) || true
        if ((nextHost < -1 || nextHost > 1 || nextTarget < -1 || nextTarget > 1)); then continue; fi
        local file="$pkg/nix-support/${__propagatedFile[$pair]}"
        if [[ ! -f $file ]]; then continue; fi
        read -r -d '' word <"$file" || true
        for next in $word; do
            findInputs "$next" "$nextHost" "$nextTarget"
        done
    done
}

__findAll() { # HOST TARGET ATTRIBUTE…
    local host=$1 target=$2 pkg name
    shift 2
    for name in "$@"; do
        local list="${name}[*]"
        for pkg in ${!list-}; do findInputs "$pkg" "$host" "$target"; done
    done
}
__findAll -1 -1 depsBuildBuild depsBuildBuildPropagated
__findAll -1 0 nativeBuildInputs propagatedNativeBuildInputs
__findAll -1 1 depsBuildTarget depsBuildTargetPropagated
__findAll 0 0 depsHostHost depsHostHostPropagated
__findAll 0 1 buildInputs propagatedBuildInputs
__findAll 1 1 depsTargetTarget depsTargetTargetPropagated
__findAll -1 0 defaultNativeBuildInputs
__findAll 0 1 defaultBuildInputs

# Hooks are sourced inside a function: what they `declare` without -g is gone after it.
activatePackage() { # PACKAGE HOST-OFFSET TARGET-OFFSET
    local pkg=$1
    local -r hostOffset=$2 targetOffset=$3
    if [[ -f $pkg ]]; then source "$pkg"; fi
    if [[ -z ${strictDeps-} ]] || ((hostOffset <= -1)); then addToSearchPath _PATH "$pkg/bin"; fi
    if ((hostOffset == 0)); then addToSearchPath _HOST_PATH "$pkg/bin"; fi
    if [[ -f $pkg/nix-support/setup-hook ]]; then source "$pkg/nix-support/setup-hook"; fi
}

__activateAll() {
    local __pair __pkg
    for __pair in "${__offsets[@]}"; do
        local __all="${__pkgs[$__pair]}[@]"
        for __pkg in ${!__all+"${!__all}"}; do
            activatePackage "$__pkg" "${__pair%%,*}" "${__pair##*,}"
        done
    done
}
__activateAll

__runEnvHooks() {
    local __pair __pkg __seen
    for __pair in "${__offsets[@]}"; do
        if [[ -z ${strictDeps-} ]]; then
            __seen=
            for __pkg in "${pkgsBuildBuild[@]}" "${pkgsBuildHost[@]}" "${pkgsBuildTarget[@]}" \
                "${pkgsHostHost[@]}" "${pkgsHostTarget[@]}" "${pkgsTargetTarget[@]}"; do
                if [[ $__seen == *"$__pkg"* ]]; then continue; fi
                __seen+=" $__pkg"
                runHook "${__envHooks[$__pair]}" "$__pkg"
            done
        else
            local __all="${__pkgs[$__pair]}[@]"
            for __pkg in ${!__all+"${!__all}"}; do runHook "${__envHooks[$__pair]}" "$__pkg"; done
        fi
    done
}
__runEnvHooks

PATH="${_PATH-}${_PATH:+:}$PATH"
HOST_PATH="${_HOST_PATH-}${_HOST_PATH:+${HOST_PATH:+:}}$HOST_PATH"
export PATH HOST_PATH TZ=UTC SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-315532800}"
unset _PATH _HOST_PATH

# As nixpkgs does it: programs find the package's own libraries.
if [[ ${NIX_NO_SELF_RPATH:-0} != 1 ]]; then
    export NIX_LDFLAGS="-rpath ${!outputLib:-$out}/lib ${NIX_LDFLAGS-}"
fi
: "${prefix:=$out}"
NIX_BUILD_CORES=${NIX_BUILD_CORES:-1}
if ((NIX_BUILD_CORES <= 0)); then NIX_BUILD_CORES=$(nproc); fi
export NIX_BUILD_CORES

# ----------------------------------------------------------------- phases

unpackPhase() {
    runHook preUnpack
    local -a list=()
    concatTo list srcs src
    local one name
    for one in "${list[@]}"; do
        name=$(basename "$one")
        if [[ $name =~ ^[a-z0-9]{32}- ]]; then name=${name:33}; fi
        if [[ -d $one ]]; then
            cp -r --preserve=timestamps "$one" "$name"
            : "${sourceRoot:=$name}"
        else
            tar xf "$one"
        fi
    done
    if [[ -z ${sourceRoot-} ]]; then
        local -a directories=(*/)
        sourceRoot=${directories[0]%/}
    fi
    chmod -R u+w -- "$sourceRoot"
    runHook postUnpack
}

patchPhase() {
    runHook prePatch
    runHook postPatch
}

configurePhase() {
    runHook preConfigure
    runHook postConfigure
}

__make() { # FLAG-VARIABLE… -- TARGET…: make, with the flags in these variables
    local -a flags=("SHELL=$SHELL")
    while [[ $1 != -- ]]; do
        concatTo flags "$1"
        shift
    done
    shift
    make "${flags[@]}" "$@"
}

buildPhase() {
    runHook preBuild
    if [[ -e Makefile ]]; then
        __make makeFlags makeFlagsArray buildFlags --
    else
        echo "no Makefile or custom buildPhase, doing nothing"
    fi
    runHook postBuild
}

checkPhase() {
    runHook preCheck
    if [[ -e Makefile ]]; then __make makeFlags makeFlagsArray checkFlags -- "${checkTarget:-check}"; fi
    runHook postCheck
}

installPhase() {
    runHook preInstall
    if [[ -e Makefile ]]; then
        mkdir -p "$prefix"
        __make makeFlags makeFlagsArray installFlags -- install
    else
        echo "no Makefile or custom installPhase, doing nothing"
    fi
    runHook postInstall
}

recordPropagatedDependencies() {
    local -A file=(
        [depsBuildBuildPropagated]=propagated-build-build-deps
        [propagatedNativeBuildInputs]=propagated-native-build-inputs
        [depsBuildTargetPropagated]=propagated-build-target-deps
        [depsHostHostPropagated]=propagated-host-host-deps
        [propagatedBuildInputs]=propagated-build-inputs
        [depsTargetTargetPropagated]=propagated-target-target-deps
    )
    local name
    for name in "${!file[@]}"; do
        local list="${name}[*]"
        if [[ -z ${!list-} ]]; then continue; fi
        mkdir -p "${!outputDev}/nix-support"
        printf '%s ' ${!list} >"${!outputDev}/nix-support/${file[$name]}"
    done
}

fixupPhase() {
    local output
    for output in $(getAllOutputNames); do
        if [[ -e ${!output} ]]; then chmod -R u+w,u-s,g-s "${!output}"; fi
    done
    runHook preFixup
    for output in $(getAllOutputNames); do
        prefix=${!output} runHook fixupOutput
    done
    recordPropagatedDependencies
    if [[ -n ${setupHook-} ]]; then
        mkdir -p "${!outputDev}/nix-support"
        substituteAll "$setupHook" "${!outputDev}/nix-support/setup-hook"
    fi
    runHook postFixup
}

installCheckPhase() {
    runHook preInstallCheck
    if [[ -e Makefile ]]; then __make makeFlags makeFlagsArray installCheckFlags -- "${installCheckTarget:-installcheck}"; fi
    runHook postInstallCheck
}

distPhase() {
    runHook preDist
    runHook postDist
}

runPhase() {
    local curPhase=$1
    case $curPhase in
    unpackPhase) if [[ -n ${dontUnpack-} ]]; then return 0; fi ;;
    patchPhase) if [[ -n ${dontPatch-} ]]; then return 0; fi ;;
    configurePhase) if [[ -n ${dontConfigure-} ]]; then return 0; fi ;;
    buildPhase) if [[ -n ${dontBuild-} ]]; then return 0; fi ;;
    checkPhase) if [[ -z ${doCheck-} ]]; then return 0; fi ;;
    installPhase) if [[ -n ${dontInstall-} ]]; then return 0; fi ;;
    fixupPhase) if [[ -n ${dontFixup-} ]]; then return 0; fi ;;
    installCheckPhase) if [[ -z ${doInstallCheck-} ]]; then return 0; fi ;;
    distPhase) if [[ -z ${doDist-} ]]; then return 0; fi ;;
    esac
    echo "Running phase: $curPhase"
    # A variable of the phase's name goes before the function.
    eval "${!curPhase:-$curPhase}"
    if [[ $curPhase == unpackPhase ]]; then cd -- "${sourceRoot:-.}"; fi
}

definePhases() {
    if [[ -n ${phases[*]-} ]]; then return 0; fi
    phases="${prePhases[*]-} unpackPhase patchPhase ${preConfigurePhases[*]-} configurePhase \
        ${preBuildPhases[*]-} buildPhase checkPhase ${preInstallPhases[*]-} installPhase \
        ${preFixupPhases[*]-} fixupPhase installCheckPhase ${preDistPhases[*]-} distPhase ${postPhases[*]-}"
}

genericBuild() {
    if [[ -f ${buildCommandPath-} ]]; then
        source "$buildCommandPath"
        return
    fi
    if [[ -n ${buildCommand-} ]]; then
        eval "$buildCommand"
        return
    fi
    definePhases
    local curPhase
    for curPhase in ${phases[*]}; do runPhase "$curPhase"; done
}

runHook postHook
runHook userHook
set +u
