# shellcheck shell=bash
# addCudaCompatRunpath FILE: nixpkgs' function of that name, for overlays.dropIn.
addCudaCompatRunpath() {
    cudaRunpathFindCompat
    if [[ -z $cudaRunpathCompatDir ]]; then
        cudaRunpathHook "addCudaCompatRunpath: there is no compat package for this platform, nothing to add"
        return 0
    fi
    cudaRunpathRunOn addCudaCompatRunpath addCudaCompatRunpath 0 "$@"
}
