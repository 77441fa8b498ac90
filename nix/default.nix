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
  forHost = hostPlatform.system == targetPlatform.system;
  edited = if forHost then pkgs else pkgs.targetPackages;

  # A set of the other machine's with the same version of CUDA, whatever it is called
  # there; or the reason for which there is none. Sets that have been removed throw.
  sameSet =
    cudaPackages:
    let
      version = cudaPackages.cudaMajorMinorVersion or "";
      parts = builtins.splitVersion version;
      candidates = map (n: "cudaPackages" + lib.concatMapStrings (part: "_" + part) (lib.take n parts)) [
        2
        1
        0
      ];
      isSame =
        name:
        let
          result = builtins.tryEval (
            edited ? ${name} && edited.${name}.cudaMajorMinorVersion or "" == version
          );
        in
        result.success && result.value;
      found = builtins.filter isSame candidates;
    in
    if found != [ ] then
      edited.${builtins.head found}
    else
      {
        cuda_compat.unknown = "there is no set of CUDA ${version} for ${targetPlatform.system}, so nobody knows its cuda_compat";
      };

  # The hooks of one CUDA set, with that set's compat package. Where it has none, or none
  # for this platform, that hook is off.
  hooksFor =
    cudaPackages:
    import ./hooks.nix {
      inherit lib;
      inherit (pkgs) makeSetupHook writeText;
      inherit hostPlatform targetPlatform;
      inherit (onBuild) cuda-runpath;
      cuda_compat =
        let
          compat = (if forHost then cudaPackages else sameSet cudaPackages).cuda_compat or null;
          systemOf = package: package.stdenv.hostPlatform.system;
        in
        # nixpkgs makes its CUDA sets with pkgs.extend. For the build machine of a cross
        # build that gives the other machine's, whose files are of no use there.
        if compat ? stdenv && systemOf compat != systemOf edited then null else compat;
      cudaCapabilities = import ./capabilities.nix { inherit lib cudaPackages; };
      addDriverRunpath = edited.addDriverRunpath or null;
      bintools = pkgs.bintools or null;
    };
  hooks = hooksFor (pkgs.cudaPackages or { });

  self = hooks // {
    inherit hooksFor;
    cuda-runpath = pkgs.callPackage ./package.nix {
      # The packages of nix/checks that look at the hooks, one derivation each.
      tests = import ./checks/hooks.nix { pkgs = pkgs.extend (import ./overlays.nix).default; };
      # go.mod asks for Go 1.25. Where nixpkgs' default is older, it may have that too.
      buildGoModule =
        if lib.versionAtLeast pkgs.go.version "1.25" then
          pkgs.buildGoModule
        else
          pkgs.buildGo125Module
            or (throw "cuda-runpath needs Go 1.25 and this nixpkgs has ${pkgs.go.version}: take nixos-25.11 or later");
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
