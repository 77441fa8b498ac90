# The checks: packages as a user would write them, and assertions on what readelf
# says of the files in them. `lib` and `overlays` are this flake's.
{
  pkgs,
  lib,
  overlays,
}:
let
  support = import ./support.nix { inherit pkgs; };
  flake = { inherit lib overlays; };
in
import ./order.nix support
// import ./outputs.nix support
// import ./settings.nix support
// import ./stubs.nix support
// import ./failure.nix support
// import ./cross.nix support
// import ./flake.nix support flake
