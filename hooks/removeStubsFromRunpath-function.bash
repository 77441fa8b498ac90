# shellcheck shell=bash
# removeStubsFromRunpath FILE: nixpkgs' function of that name, for overlays.dropIn.
removeStubsFromRunpath() {
    cudaRunpathRunOn removeStubsFromRunpath stubReplace 0 "$@"
}
