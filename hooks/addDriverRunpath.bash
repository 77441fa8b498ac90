# shellcheck shell=bash
# For a package's own phases, as nixpkgs has it: puts the driver link into the run path of files.
# [--force-rpath] [--] FILE…
addDriverRunpath() { cudaRunpathPlainly cudaRunpathTell addDriverRunpath "$@"; }
