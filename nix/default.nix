# Everything that this repository gives to Nix, for one set of packages:
#
#   import ./nix { inherit pkgs; }
#
# without flakes; flake.nix and the overlays use the same. In a cross build, `pkgs`
# is what the packages run on; the hooks' tools always run on the build machine, and
# the compat directory is always that of the machine the edited files are for.
{ pkgs }:
let
  inherit (pkgs) lib;
  buildPkgs = pkgs.buildPackages;
  isCross = pkgs.stdenv.buildPlatform.system != pkgs.stdenv.hostPlatform.system;
  onBuild = if isCross then import ./. { pkgs = buildPkgs; } else self;

  hooks = import ./hooks.nix {
    inherit lib;
    inherit (pkgs) makeSetupHook writeText;
    inherit (pkgs.stdenv) hostPlatform;
    inherit (onBuild) cuda-runpath;
    # For a hook on the build machine, targetPackages are those it edits. Where the
    # CUDA set is missing or of no use on this platform, there is no compat package.
    cuda_compat = pkgs.targetPackages.cudaPackages.cuda_compat or null;
  };

  self =
    hooks
    // {
      cuda-runpath = pkgs.callPackage ./package.nix { native = if isCross then onBuild.cuda-runpath else null; };
      # The one tool for users, without the others.
      hostDriver =
        let
          output = lib.getOutput "hostDriver" self.cuda-runpath;
        in
        output
        // {
          meta = output.meta // {
            description = "Gives programs built with Nix the GPU driver of a host that is not NixOS";
            mainProgram = "hostDriver";
          };
        };
      # nixpkgs' names for the same things.
      autoAddCudaCompatRunpath = hooks.addCudaCompatRunpath;
      removeStubsFromRunpathHook = hooks.stubReplace;
      noRunpathAmbiguityHook = hooks.noRunpathAmbiguity;
    };
in
self
