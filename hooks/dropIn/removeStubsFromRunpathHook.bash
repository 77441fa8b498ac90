# shellcheck shell=bash
# As in nixpkgs, removeStubsFromRunpathHookOnce says that the hook is here already; packages set it
# to do without.
if [[ -z ${removeStubsFromRunpathHookOnce-} ]]; then
    declare -g removeStubsFromRunpathHookOnce=1
    cudaRunpathStandIn removeStubsFromRunpath
elif [[ -z ${cudaRunpathKnown[removeStubsFromRunpath]-} ]]; then
    cudaRunpathGiven+=("off=stubReplace removeStubsFromRunpathHookOnce")
fi
