# shellcheck shell=bash source=../core.bash
source @core@
# FILE…
addCudaCompatRunpath() { cudaRunpathPlainly cudaRunpathTell addCudaCompatRunpath "$@"; }
cudaRunpathStandIn addCudaCompatRunpath
cudaRunpathBring @release@ @tools@ @brings@
