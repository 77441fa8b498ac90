# shellcheck shell=bash
# addDriverRunpath [--force-rpath] [--] FILE…
#
# For a package's own phases, as nixpkgs has it: puts the driver link into the run
# path of these files. Files that are not dynamic ELF files are skipped; one that does
# not exist is a warning. Returns non-zero where a file cannot be edited.
cudaRunpathProvide autoAddDriverRunpath '@tools@' '@driverLink@'

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
