# shellcheck shell=bash
# nixpkgs' removeStubsFromRunpathHook, with its function removeStubsFromRunpath FILE.
# As there, removeStubsFromRunpathHookOnce says that the hook is here already; packages
# set it to do without.
if [[ -z ${removeStubsFromRunpathHookOnce-} ]]; then
    declare -g removeStubsFromRunpathHookOnce=1
    removeStubsFromRunpath() {
        cudaRunpathRunOn removeStubsFromRunpath stubReplace 0 "$@"
    }
    cudaRunpathStandIn stubReplace '@tools@' '@driverLink@' removeStubsFromRunpath
elif [[ -z ${cudaRunpathFunction[stubReplace]-} ]]; then
    cudaRunpathHook "stubReplace: switched off by removeStubsFromRunpathHookOnce"
fi
