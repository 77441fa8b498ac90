# shellcheck shell=bash
# addDriverRunpath [--force-rpath] [--] FILE…
#
# For a package's own phases, as nixpkgs has it: puts the driver link into the run
# path of these files. Other files than dynamic ELF ones are left alone. Returns
# non-zero where a file does not exist or cannot be edited.
cudaRunpathProvide autoAddDriverRunpath '@autoAddDriverRunpath@/bin/autoAddDriverRunpath'

addDriverRunpath() {
    local -a __crForce=()
    while (($#)); do
        case $1 in
        --)
            shift
            break
            ;;
        --force-rpath)
            __crForce=(--force-rpath)
            shift
            ;;
        --*)
            cudaRunpathFailure "addDriverRunpath: unknown argument $1; it takes --force-rpath and files"
            return 1
            ;;
        *) break ;;
        esac
    done
    cudaRunpathRunOn addDriverRunpath autoAddDriverRunpath "${#__crForce[@]}" "${__crForce[@]}" "$@"
}
