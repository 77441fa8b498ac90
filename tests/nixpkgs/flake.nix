{
  description = "What this repository uses of nixpkgs, on the host's toolchain, for tests without internet";

  outputs =
    { self }:
    let
      lib = import ./lib.nix;
    in
    {
      inherit lib;
      legacyPackages = lib.genAttrs lib.platforms.linux (system: import ./. { inherit system; });
    };
}
