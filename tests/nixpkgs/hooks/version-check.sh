# shellcheck shell=bash disable=SC2154
# The main program, in an empty environment, says which version it is.
versionCheck() {
    local text
    text=$(env -i "$out/bin/$NIX_MAIN_PROGRAM" --version 2>&1) || exit
    if [[ $text != *"$version"* ]]; then
        echo "$NIX_MAIN_PROGRAM --version does not say $version: $text" >&2
        exit 1
    fi
}
preInstallCheckHooks+=(versionCheck)
