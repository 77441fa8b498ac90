# `nix develop`: what a change to this repository needs.
{ pkgs }:
pkgs.mkShell {
  packages = [
    pkgs.go
    pkgs.gopls
    pkgs.patchelf
    pkgs.elfutils
    pkgs.jq
    pkgs.shellcheck
    pkgs.nixfmt
  ];
}
