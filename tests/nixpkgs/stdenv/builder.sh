# shellcheck shell=bash disable=SC1090,SC2154
# $stdenv/setup: the build environment with this platform's toolchain in front.
export PATH=/usr/bin:/bin
mkdir "$out"
{
    echo "export SHELL=$shell"
    echo "initialPath=\"$initialPath\""
    echo "defaultNativeBuildInputs=\"$defaultNativeBuildInputs\""
    echo "defaultBuildInputs=\"$defaultBuildInputs\""
    echo "$preHook"
    cat "$setup"
} >"$out/setup"
