# shellcheck shell=bash disable=SC1090,SC1091,SC2154
if [ -e "${NIX_ATTRS_SH_FILE-}" ]; then . "$NIX_ATTRS_SH_FILE"; fi
source "$stdenv/setup"
source "$1"
