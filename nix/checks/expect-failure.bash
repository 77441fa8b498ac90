# shellcheck shell=bash disable=SC1090,SC2154
# expect-failure.bash BUILDER ARGUMENT…: runs a build that is expected to fail (or,
# with expectSuccess, to succeed) and makes its log the output.
if [[ -n ${NIX_ATTRS_SH_FILE-} ]]; then
    source "$NIX_ATTRS_SH_FILE"
    out=${outputs[out]}
fi
"$@" >log 2>&1
status=$?
while IFS= read -r line; do printf '%s\n' "$line"; done <log
if [[ -n ${expectSuccess-} && $status -ne 0 ]]; then
    echo "the build was expected to succeed, and ended with status $status"
    exit 1
elif [[ -z ${expectSuccess-} && $status -eq 0 ]]; then
    echo "the build was expected to fail, and succeeded"
    exit 1
fi
if [[ -e $out ]]; then "$remove" -rf "$out"; fi
printf '%s\n' "$(<log)" "exit status $status" >"$out"
