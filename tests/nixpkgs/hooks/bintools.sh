# shellcheck shell=bash disable=SC2154
# Says which linker makes files for a platform, as nixpkgs' bintools do: the host of the
# package that is built, or with another target offset another one.
if [[ -z ${strictDeps-} ]] || ((hostOffset < 0)); then
    case $targetOffset in
    -1) export NIX_BINTOOLS_FOR_BUILD=@out@ ;;
    0) export NIX_BINTOOLS=@out@ ;;
    1) export NIX_BINTOOLS_FOR_TARGET=@out@ ;;
    esac
fi
