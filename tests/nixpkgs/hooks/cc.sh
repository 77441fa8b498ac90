# shellcheck shell=bash disable=SC2154
# The compiler's hook: CC and its friends, and -L and -rpath for the libraries of
# buildInputs, which is how a stub directory gets into a run path in nixpkgs.
# The build platform's compiler in a cross build sets CC_FOR_BUILD only.
__ccAddLibrary() {
    if [[ -d $1/lib ]]; then export NIX_LDFLAGS="${NIX_LDFLAGS-} -L$1/lib"; fi
}
if ((targetOffset == 0)); then
    addEnvHooks "$targetOffset" __ccAddLibrary
    export NIX_CC_WRAPPER_TARGET_HOST_@salt@=1
    export CC=@prefix@cc CXX=@prefix@c++ LD=@prefix@ld AR=@prefix@ar RANLIB=@prefix@ranlib
    export NIX_BINTOOLS=@bintools@
    export STRIP=@prefix@strip OBJCOPY=@prefix@objcopy READELF=@prefix@readelf OBJDUMP=@prefix@objdump
else
    export CC_FOR_BUILD=@prefix@cc NIX_BINTOOLS_FOR_BUILD=@bintools@
fi
