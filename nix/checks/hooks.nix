# The checks that need nothing but packages with overlays.default: cuda-runpath.tests.
{ pkgs }:
let
  support = import ./support.nix { inherit pkgs; };
in
import ./order.nix support
// import ./outputs.nix support
// import ./settings.nix support
// import ./stubs.nix support
// import ./failure.nix support
// import ./capabilities.nix support
// import ./cross.nix support
