{
  description = "A CUDA program whose run path is right";

  inputs = {
    nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";
    # Where you have cuda-runpath from.
    cuda-runpath.url = "path:/path/to/cuda-runpath";
    cuda-runpath.inputs.nixpkgs.follows = "nixpkgs";
  };

  outputs =
    {
      self,
      nixpkgs,
      cuda-runpath,
    }:
    let
      forAllSystems = nixpkgs.lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
      ];
    in
    {
      packages = forAllSystems (
        system:
        let
          pkgs = import nixpkgs {
            inherit system;
            config.allowUnfree = true; # CUDA
            overlays = [ cuda-runpath.overlays.default ];
          };
        in
        {
          default = pkgs.callPackage ./package.nix { };
        }
      );
    };
}
