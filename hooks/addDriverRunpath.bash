# shellcheck shell=bash source=core.bash
source @core@
# For a package's own phases, as nixpkgs has it: puts the driver link into the run path of files.
# [--force-rpath] [--] FILE…
addDriverRunpath() { cudaRunpathPlainly cudaRunpathTell addDriverRunpath "$@"; }
cudaRunpathBring @release@ @tools@ @brings@
