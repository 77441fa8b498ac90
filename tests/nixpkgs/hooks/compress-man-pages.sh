# shellcheck shell=bash disable=SC2016
# Compresses manual pages; links to them follow.
fixupOutputHooks+=('if [[ -z ${dontGzipMan-} ]]; then compressManPages "$prefix"; fi')

compressManPages() {
    local pages=$1/share/man link target
    if [[ -L $1/share || -L $pages || ! -d $pages ]]; then return 0; fi
    echo "gzipping man pages under $pages/"
    find "$pages" -type f ! -name '*.gz' ! -name '*.bz2' ! -name '*.xz' -exec gzip -n -f {} +
    while IFS= read -r -d '' link; do
        target=$(readlink -m "$link").gz
        if [[ -f $target ]]; then
            ln -s "$target" "$link.gz"
            rm "$link"
        fi
    done < <(find "$pages" -type l ! -name '*.gz' ! -name '*.bz2' ! -name '*.xz' -print0)
}
