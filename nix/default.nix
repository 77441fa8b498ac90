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
  inherit (pkgs.stdenv) buildPlatform hostPlatform targetPlatform;
  isNative =
    buildPlatform.system == hostPlatform.system && hostPlatform.system == targetPlatform.system;
  # The same for the build machine, where the tools run.
  onBuild = if isNative then self else import ./. { pkgs = pkgs.pkgsBuildBuild; };
  # What a hook of these packages edits files for: a hook on the build machine of a cross
  # build has the other machine as its target.
  edited = if hostPlatform.system == targetPlatform.system then pkgs else pkgs.targetPackages;

  hooks = import ./hooks.nix {
    inherit lib;
    inherit (pkgs) makeSetupHook writeText;
    inherit hostPlatform;
    inherit (onBuild) cuda-runpath;
    # Where the CUDA set has none, or none for this platform, the hook is off.
    cuda_compat = edited.cudaPackages.cuda_compat or null;
  };

  self = hooks // {
    cuda-runpath = pkgs.callPackage ./package.nix {
      native = if isNative then null else onBuild.cuda-runpath;
      # Where nixpkgs' default Go is older than go.mod asks for.
      buildGoModule =
        if pkgs ? buildGo126Module && !(lib.versionAtLeast pkgs.go.version "1.26") then
          pkgs.buildGo126Module
        else
          pkgs.buildGoModule;
    };
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
