# shellcheck shell=bash
# nixpkgs' autoAddCudaCompatRunpath, with its function addCudaCompatRunpath FILE.
addCudaCompatRunpath() {
    cudaRunpathFindCompat
    if [[ -z $cudaRunpathCompatDir ]]; then
        cudaRunpathHook "addCudaCompatRunpath: there is no compat package for this platform, nothing to add"
        return 0
    fi
    cudaRunpathRunOn addCudaCompatRunpath addCudaCompatRunpath 0 "$@"
}
cudaRunpathBringCompat '@cudaCompat@' '@cudaCompatUnknown@'
cudaRunpathStandIn addCudaCompatRunpath '@tools@' '@driverLink@' addCudaCompatRunpath
