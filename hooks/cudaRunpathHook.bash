# shellcheck shell=bash source=core.bash
source @core@
# [--force-rpath] [--] FILE…
addDriverRunpath() { cudaRunpathPlainly cudaRunpathTell addDriverRunpath "$@"; }
# Its functions have the names of nixpkgs', which a package may have beside this.
if [[ -n ${cudaRunpathAutoPatchelf-} ]] && ! declare -F autoPatchelf >/dev/null; then
    # shellcheck source=autoPatchelf.bash
    source @autoPatchelf@
fi
cudaRunpathBring @release@ @tools@ @brings@
