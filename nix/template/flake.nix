{
  description = "A CUDA program whose run path is right";

  inputs = {
    # The one line to change: where you have cuda-runpath from.
    cuda-runpath.url = "git+file:///path/to/clone";
    # The release that it is tested with.
    nixpkgs.follows = "cuda-runpath/nixpkgs";
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
