# shellcheck shell=bash source=core.bash
source @core@
# shellcheck source=autoPatchelf.bash
source @autoPatchelf@
cudaRunpathBring @release@ @tools@ @brings@
