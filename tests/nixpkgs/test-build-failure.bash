# shellcheck shell=bash disable=SC1090,SC2154
# test-build-failure.bash COREUTILS BUILDER ARGUMENT…: see testers.nix.
coreutils=$1
shift
if [[ -n ${NIX_ATTRS_SH_FILE-} ]]; then
    source "$NIX_ATTRS_SH_FILE"
    made=("${outputs[@]}")
    first=${outputs[out]}
else
    made=()
    for output in $outputs; do made+=("${!output}"); done
    first=${made[0]}
fi
log=$NIX_BUILD_TOP/testBuildFailure.log
("$@" 2>&1) | "$coreutils/tee" "$log"
status=${PIPESTATUS[0]}
if ((status == 0)); then
    echo "testBuildFailure: The builder did not fail, but a failure was expected!"
    exit 1
fi
# A single file becomes "result".
if [[ -e $first && ! -d $first ]]; then
    "$coreutils/mv" "$first" "$NIX_BUILD_TOP/result" && "$coreutils/mkdir" "$first" && "$coreutils/mv" "$NIX_BUILD_TOP/result" "$first/result"
fi
"$coreutils/mkdir" -p "${made[@]}" && "$coreutils/mv" "$log" "$first/testBuildFailure.log" && echo "$status" >"$first/testBuildFailure.exit"
