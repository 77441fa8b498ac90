# A stand-in for nixpkgs: the same names and the same behaviour, as far as this
# repository uses them, on the tools of the machine it runs on (gcc, go, patchelf,
# jq … below /usr). So it needs `sandbox = false`, and what it builds is no more
# reproducible than the machine is. It is for tests only.
#
# `replace` puts files of a real nixpkgs in place of the stand-in's own: `setup`,
# `defaultHooks`, `separateDebugInfo`, `autoPatchelf`, and `mkDerivation`, a
# function of the stdenv.
{
  system ? builtins.currentSystem,
  overlays ? [ ],
  config ? { },
  crossSystem ? null,
  replace ? { },
  # The release whose CUDA sets this one's look like: see cuda.nix.
  shape ? "25.11",
}:
let
  lib = import ./lib.nix;

  platform = platformSystem: rec {
    system = platformSystem;
    isx86_64 = system == "x86_64-linux";
    isAarch64 = system == "aarch64-linux";
    isi686 = false;
    isDarwin = builtins.match ".*-darwin" system != null;
    isLinux = !isDarwin;
    isStatic = false;
    isElf = !isDarwin;
    config =
      if isDarwin then
        "arm64-apple-darwin"
      else
        (if isAarch64 then "aarch64" else "x86_64") + "-unknown-linux-gnu";
    canExecute = other: other.system == system;
    go.GOARCH = if isAarch64 then "arm64" else "amd64";
  };
  local = platform system;

  # One stage: the packages that are built on, run on and make code for these platforms.
  stage =
    {
      host,
      target,
      buildPackages,
      targetPackages,
    }:
    lib.fix (
      builtins.foldl' (f: overlay: lib.extends overlay f) (
        final:
        import ./packages.nix {
          inherit
            lib
            config
            replace
            shape
            host
            target
            ;
          pkgs = final;
          build = local;
          buildPackages = if buildPackages == null then final else buildPackages;
          targetPackages = if targetPackages == null then final else targetPackages;
          extend =
            overlay:
            import ./. {
              inherit
                system
                config
                crossSystem
                replace
                shape
                ;
              overlays = overlays ++ [ overlay ];
            };
          cross =
            other:
            import ./. {
              inherit
                system
                overlays
                config
                replace
                shape
                ;
              crossSystem = {
                system = other;
              };
            };
        }
      ) overlays
    );

  native = stage {
    host = local;
    target = local;
    buildPackages = null;
    targetPackages = null;
  };
  foreign = platform crossSystem.system;
  toForeign = stage {
    host = local;
    target = foreign;
    buildPackages = native;
    targetPackages = onForeign;
  };
  onForeign = stage {
    host = foreign;
    target = foreign;
    buildPackages = toForeign;
    targetPackages = null;
  };
in
if crossSystem == null then native else onForeign
