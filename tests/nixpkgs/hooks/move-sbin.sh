# shellcheck shell=bash disable=SC2154
# What is in sbin is moved to bin, and sbin becomes a link.
fixupOutputHooks+=(_moveSbin)

_moveSbin() {
    if [[ ${dontMoveSbin-} == 1 || ! -d $prefix/sbin || -L $prefix/sbin ]]; then return 0; fi
    echo "moving $prefix/sbin/* to $prefix/bin"
    mkdir -p "$prefix/bin"
    find "$prefix/sbin" -mindepth 1 -maxdepth 1 -exec mv -t "$prefix/bin" {} +
    rmdir "$prefix/sbin"
    ln -s bin "$prefix/sbin"
}
