# shellcheck shell=bash disable=SC1090,SC2154
# keep-log.bash BUILDER ARGUMENT…: runs a build and makes its log the output.
if [[ -n ${NIX_ATTRS_SH_FILE-} ]]; then
    source "$NIX_ATTRS_SH_FILE"
    out=${outputs[out]}
fi
"$@" >log 2>&1
status=$?
while IFS= read -r line; do printf '%s\n' "$line"; done <log
((status == 0)) || exit "$status"
if [[ -e $out ]]; then "$remove" -rf "$out"; fi
printf '%s\n' "$(<log)" "exit status 0" >"$out"
