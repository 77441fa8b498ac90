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
  inherit
    (import ../hooks/package.nix {
      inherit lib;
      inherit (pkgs)
        stdenv
        callPackage
        makeSetupHook
        pkgsBuildBuild
        targetPackages
        ;
      addDriverRunpath = pkgs.addDriverRunpath or null;
      bintools = pkgs.bintools or null;
      cudaPackages = pkgs.cudaPackages or { };
      program = onBuild.cuda-runpath;
    })
    hooksFor
    ;
  hooks = hooksFor (pkgs.cudaPackages or { });

  # Only what the compiler reads: editing tests, documentation or Nix rebuilds nothing.
  src = lib.cleanSourceWith {
    src = ../.;
    name = "cuda-runpath-source";
    filter =
      path: type:
      let
        name = baseNameOf path;
        relative = lib.removePrefix (toString ../. + "/") (toString path);
        below = directory: relative == directory || lib.hasPrefix (directory + "/") relative;
        isCode = below "cmd" || below "pkg";
      in
      if type == "directory" then
        isCode && name != "testdata"
      else
        relative == "go.mod"
        || relative == "go.sum"
        || (
          isCode
          && !(lib.hasSuffix "_test.go" name)
          && !(lib.hasSuffix ".md" name)
          && !(lib.hasSuffix ".png" name)
        );
  };

  self = hooks // {
    inherit hooksFor;
    fixupElfHook = import ../hooks/fixupElf/package.nix { inherit (hooks) cudaRunpathHook; };
    cuda-runpath = (pkgs.callPackage ./package.nix {
      inherit (hooks) cudaRunpathHook;
      # go.mod asks for Go 1.25. Where nixpkgs' default is older, it may have that too.
      buildGoModule =
        if lib.versionAtLeast pkgs.go.version "1.25" then
          pkgs.buildGoModule
        else
          pkgs.buildGo125Module
            or (throw "cuda-runpath needs Go 1.25 and this nixpkgs has ${pkgs.go.version}: take nixos-25.11 or later");
    }).overrideAttrs { inherit src; };
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
    hostDriverLinks = pkgs.callPackage ./host-driver-links.nix { };
    # The program under patchelf's name, with patchelf's command line. The overlays do not
    # put it in patchelf's place: `cudaRunpath.patchelf`.
    patchelf =
      let
        output = lib.getOutput "patchelf" self.cuda-runpath;
      in
      output
      // {
        meta = output.meta // {
          description = "Changes run paths, interpreters and needed libraries, with the command line of patchelf 0.19";
          mainProgram = "patchelf";
        };
      };
    # nixpkgs' names for the same things.
    autoAddCudaCompatRunpath = hooks.addCudaCompatRunpath;
    removeStubsFromRunpathHook = hooks.stubReplace;
    noRunpathAmbiguityHook = hooks.noRunpathAmbiguity;
  };
in
self
