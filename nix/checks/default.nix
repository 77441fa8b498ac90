# The checks: packages as a user would write them, and assertions on what readelf
# says of the files in them. What stands beside `pkgs` are this flake's outputs.
{
  pkgs,
  lib,
  overlays,
  homeModules,
  systemManagerModules,
}@flake:
let
  support = import ../../hooks/tests/support.nix {
    inherit pkgs;
    ours = pkgs.cudaRunpath;
  };
in
import ../../hooks/tests support
// import ../../hooks/fixupElf/tests.nix support
// import ./cross.nix support
// import ./flake.nix support flake
// import ./drop-in.nix support flake
// import ./auto-patchelf.nix support flake
// import ./host-driver.nix support flake
// import ./patterns.nix support
