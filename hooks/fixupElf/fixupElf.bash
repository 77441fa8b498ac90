# shellcheck shell=bash disable=SC2317
# shellcheck source=/dev/null
source @core@
# stdenv's functions, ours: its entries in fixupOutputHooks call them, under its own conditions
# (dontPatchELF, noAuditTmpdir). A package whose phases have a function of that name keeps its own.
cudaRunpathFixupElf() {
    patchELF() { cudaRunpathPlainly cudaRunpathTell patchELF "$@" || builtin exit; } # DIR
    auditTmpdir() { # DIR
        # patchELF has looked for it in the same walk.
        if [[ $1 == "${cudaRunpathAudited-}" ]]; then cudaRunpathAudited=''; builtin return; fi
        cudaRunpathPlainly cudaRunpathTell auditTmpdir "$@" || builtin exit
    }
}
# When all hooks are there: a second patchelf in nativeBuildInputs brings stdenv's function again.
postHooks+=(cudaRunpathFixupElf)
cudaRunpathBring @release@ @tools@ @brings@
