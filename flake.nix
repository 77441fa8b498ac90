{
  description = "Run paths of CUDA programs: no stubs, the driver where it belongs, in one normal form";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      forAllSystems = nixpkgs.lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
      ];
      pkgsFor = system: nixpkgs.legacyPackages.${system};
      oursFor = forAllSystems (system: import ./nix { pkgs = pkgsFor system; });
      checksFor = forAllSystems (
        system:
        import ./nix/checks {
          pkgs = (pkgsFor system).extend self.overlays.default;
          inherit (self)
            lib
            overlays
            homeModules
            systemManagerModules
            ;
        }
      );
      isDerivation = value: value.type or "" == "derivation";
      # For `nix shell .#stubReplace`: a hook propagates its program into builds, and has none itself.
      withProgram =
        pkgs: package:
        if package.propagatedBuildInputs or [ ] == [ ] then
          package
        else
          pkgs.runCommand package.name { inherit (package) meta; } ''
            cp -r --no-preserve=mode ${package} $out
            ln -s ${builtins.head package.propagatedBuildInputs}/bin $out/bin
          '';
    in
    {
      overlays = import ./nix/overlays.nix;

      lib = import ./nix/lib.nix {
        packagesFor = system: oursFor.${system};
        inherit pkgsFor;
        inherit (self) overlays;
      };

      packages = forAllSystems (
        system:
        builtins.mapAttrs (_: withProgram (pkgsFor system)) (
          nixpkgs.lib.filterAttrs (_: isDerivation) oursFor.${system}
        )
        // {
          default = oursFor.${system}.cuda-runpath;
          # All checks at once: `nix build .#checks`.
          checks = (pkgsFor system).linkFarm "checks" checksFor.${system};
          # What pull requests to nixpkgs would hold.
          upstream = import ./nix/upstream {
            pkgs = pkgsFor system;
            inherit (self) narHash;
          };
          # The template's program. Its GPU check is `nix build .#example.gpuCheck`.
          example =
            (import nixpkgs {
              inherit system;
              config.allowUnfree = true; # CUDA
              overlays = [ self.overlays.default ];
            }).callPackage
              ./nix/template/package.nix
              { };
        }
      );

      checks = checksFor;

      apps = forAllSystems (
        system:
        import ./nix/apps.nix {
          pkgs = pkgsFor system;
          inherit (oursFor.${system}) cuda-runpath;
          inherit (self.lib) patchEnvironment;
        }
      );

      devShells = forAllSystems (system: {
        default = import ./nix/shell.nix { pkgs = pkgsFor system; };
      });

      formatter = forAllSystems (system: import ./nix/formatter.nix { pkgs = pkgsFor system; });

      # Hosts other than NixOS: one option each.
      homeModules.default = import ./nix/modules/home-manager.nix { inherit self; };
      systemManagerModules.default = import ./nix/modules/system-manager.nix { inherit self; };

      templates.default = {
        path = ./nix/template;
        description = "A small CUDA program whose run path is right";
      };
      templates.venv = {
        path = ./nix/template-venv;
        description = "A development shell for uv, pip and npm with libraries of Nix and the GPU driver";
      };
    };
}
