# shellcheck shell=bash disable=SC2154
# What is in lib64 is moved to lib, and lib64 becomes a link.
fixupOutputHooks+=(_moveLib64)

_moveLib64() {
    if [[ ${dontMoveLib64-} == 1 || ! -d $prefix/lib64 || -L $prefix/lib64 ]]; then return 0; fi
    echo "moving $prefix/lib64/* to $prefix/lib"
    mkdir -p "$prefix/lib"
    find "$prefix/lib64" -mindepth 1 -maxdepth 1 -exec mv --no-clobber -t "$prefix/lib" {} +
    rmdir "$prefix/lib64"
    ln -s lib "$prefix/lib64"
}
