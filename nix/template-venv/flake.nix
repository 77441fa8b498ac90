{
  description = "A development shell in which uv's, pip's and npm's packages find libraries of Nix and the GPU driver";

  inputs = {
    # The one line to change: where you have cuda-runpath from.
    cuda-runpath.url = "git+file:///path/to/clone";
    nixpkgs.follows = "cuda-runpath/nixpkgs";
  };

  outputs =
    { nixpkgs, cuda-runpath, ... }:
    let
      forAllSystems = nixpkgs.lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
      ];
    in
    {
      devShells = forAllSystems (
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
          # Edits .venv and node_modules at each entry, where something is new; by hand,
          # after `uv sync` or `pip install`: patch-environment.
          environment = cuda-runpath.lib.patchEnvironment { inherit pkgs; };
        in
        {
          default = pkgs.mkShell {
            packages = [
              pkgs.python3
              pkgs.uv
              environment
            ];
            inherit (environment) shellHook;
          };
        }
      );
    };
}
