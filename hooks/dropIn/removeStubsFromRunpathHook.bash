# shellcheck shell=bash source=../core.bash
source @core@
# FILE…
removeStubsFromRunpath() { cudaRunpathPlainly cudaRunpathTell removeStubsFromRunpath "$@"; }
# As in nixpkgs, removeStubsFromRunpathHookOnce says that the hook is here already; packages set it
# to do without.
if [[ -z ${removeStubsFromRunpathHookOnce-} ]]; then
    declare -g removeStubsFromRunpathHookOnce=1
    cudaRunpathStandIn removeStubsFromRunpath
elif [[ " ${cudaRunpathGiven[*]} " != *" stands-for=removeStubsFromRunpath "* ]]; then
    cudaRunpathGiven+=("off=stubReplace removeStubsFromRunpathHookOnce")
fi
cudaRunpathBring @release@ @tools@ @brings@
