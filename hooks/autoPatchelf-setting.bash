# shellcheck shell=bash
# cudaRunpathAutoPatchelf = true brings autoPatchelf too.
if [[ -n ${cudaRunpathAutoPatchelf-} ]]; then
    cudaRunpathAutoPatchelf '@tools@'
fi
