# cudaRunpathHook, of the default CUDA set; as `hooksFor SET`, all hooks of a CUDA set. A
# directory by itself: as pkgs/by-name/cu/cudaRunpathHook of nixpkgs, it needs nothing else.
{
  lib,
  pkgs,
  makeSetupHook,
  writeText,
  # The tools, for the machine that builds: wherever a hook is listed, its program runs there.
  program ? pkgs.pkgsBuildBuild.cuda-runpath,
}:
let
  inherit (pkgs.stdenv) hostPlatform targetPlatform;
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
      inherit
        lib
        makeSetupHook
        writeText
        hostPlatform
        targetPlatform
        ;
      cuda-runpath = program;
      passthru = { inherit hooksFor tests; };
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

  tests = import ./tests (
    import ./tests/support.nix {
      inherit pkgs;
      ours = hooksFor (pkgs.cudaPackages or { }) // {
        inherit hooksFor;
        cuda-runpath = program;
      };
    }
  );
in
(hooksFor (pkgs.cudaPackages or { })).cudaRunpathHook
