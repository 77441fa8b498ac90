# shellcheck shell=bash source=core.bash
# A hook that brings tools, and nothing beside them.
source @core@
cudaRunpathBring @release@ @tools@ @brings@
