# fixupElfHook: stdenv's own steps for ELF files, for packages with or without CUDA.
{ cudaRunpathHook }:
let
  fixupElfHook = (cudaRunpathHook.hooksFor { }).hook {
    name = "fixup-elf-hook";
    description = "Does what stdenv does to ELF files (shrink run paths, look for $TMPDIR, write resolution notes) in one walk";
    brings = _: [ "elf=" ];
    file = ./fixupElf.bash;
    passthru.tests = import ./tests.nix (
      cudaRunpathHook.testSupport // { ours = { inherit fixupElfHook; }; }
    );
  };
in
fixupElfHook
