# cudaRunpathHook, of the default CUDA set; as `hooksFor SET`, all hooks of a CUDA set. A
# directory by itself: as pkgs/by-name/cu/cudaRunpathHook of nixpkgs, it needs nothing else.
{
  lib,
  stdenv,
  callPackage,
  makeSetupHook,
  pkgsBuildBuild,
  targetPackages,
  # Where there are none, as in a nixpkgs without CUDA.
  addDriverRunpath ? null,
  bintools ? null,
  cudaPackages ? { },
  # The tools, for the machine that builds: wherever a hook is listed, its program runs there.
  program ? pkgsBuildBuild.cuda-runpath,
}:
let
  inherit (stdenv) hostPlatform targetPlatform;
  # What a hook of these packages edits files for: a hook on the build machine of a cross
  # build has the other machine as its target.
  forHost = hostPlatform.system == targetPlatform.system;

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
            targetPackages ? ${name} && targetPackages.${name}.cudaMajorMinorVersion or "" == version
          );
        in
        result.success && result.value;
      found = builtins.filter isSame candidates;
    in
    if found != [ ] then
      targetPackages.${builtins.head found}
    else
      {
        cuda_compat.unknown = "there is no set of CUDA ${version} for ${targetPlatform.system}, so nobody knows its cuda_compat";
      };

  # The hooks of one CUDA set, with that set's compat package. Where it has none, or none
  # for this platform, that hook is off.
  hooksFor =
    cudaPackages:
    import ./hooks.nix {
      inherit
        lib
        makeSetupHook
        hostPlatform
        targetPlatform
        ;
      cuda-runpath = program;
      passthru = { inherit hooksFor testSupport tests; };
      cuda_compat =
        let
          compat = (if forHost then cudaPackages else sameSet cudaPackages).cuda_compat or null;
        in
        # nixpkgs makes its CUDA sets with pkgs.extend. For the build machine of a cross
        # build that gives the other machine's, whose files are of no use there.
        if compat ? stdenv && compat.stdenv.hostPlatform.system != targetPlatform.system then
          null
        else
          compat;
      cudaCapabilities = import ./capabilities.nix { inherit lib cudaPackages; };
      inherit bintools;
      addDriverRunpath =
        if forHost then addDriverRunpath else targetPackages.addDriverRunpath or null;
    };

  testSupport = callPackage ./tests/support.nix {
    ours = hooksFor cudaPackages // {
      inherit hooksFor;
      cuda-runpath = program;
    };
  };
  tests = import ./tests testSupport;
in
(hooksFor cudaPackages).cudaRunpathHook
