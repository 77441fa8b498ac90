# shellcheck shell=bash source=../core.bash
source @core@
# [--force-rpath] [--] FILE…
addDriverRunpath() { cudaRunpathPlainly cudaRunpathTell addDriverRunpath "$@"; }
cudaRunpathStandIn addDriverRunpath
cudaRunpathBring @release@ @tools@ @brings@
