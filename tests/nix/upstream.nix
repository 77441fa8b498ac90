# The checks, where the hooks are not this repository's overlays but the files of the pull
# requests to nixpkgs (nix/upstream), found as nixpkgs finds them.
{
  # What `nix build .#upstream` makes.
  tree,
  # The repository, as its tag has it.
  source,
  # What is in nixpkgs' place.
  nixpkgs ? ../nixpkgs,
}@given:
let
  lib = import ../nixpkgs/lib.nix;
  # Directories that are packages by their names, of the steps in order.
  packages =
    directory:
    builtins.foldl' (
      found: step:
      let
        here = tree + "/${step}/${directory}";
      in
      found
      // lib.genAttrs (if builtins.pathExists here then builtins.attrNames (builtins.readDir here) else [ ]) (
        name: here + "/${name}/package.nix"
      )
    ) { } (builtins.attrNames (builtins.readDir tree));
  byName = packages "pkgs/by-name/au" // packages "pkgs/by-name/cu" // packages "pkgs/by-name/fi";
  inSets = packages "pkgs/development/cuda-modules/packages";

  inPlace =
    final: prev:
    builtins.mapAttrs (_: file: final.callPackage file { }) byName
    // {
      # Of the source, what the compiler reads: so the program is the one that the other checks have built, and so are the
      # packages that the files of the pull requests make no other than they do.
      cuda-runpath = (final.callPackage byName.cuda-runpath { }).overrideAttrs {
        inherit (prev.cudaRunpath.cuda-runpath) src;
      };
      _cuda = prev._cuda.extend (
        _: cuda: {
          extensions = cuda.extensions ++ [
            # In nixpkgs, cudaPackages is the set itself for its own packages.
            (set: _: builtins.mapAttrs (_: file: set.callPackage file { cudaPackages = set; }) inSets)
          ];
        }
      );
    };
  overlays = import ../../nix/overlays.nix // {
    dropIn = inPlace;
  };
  pkgs = (import given.nixpkgs or ../nixpkgs { }).extend overlays.default;
  upstream = pkgs.extend inPlace;
  checks = import ../../nix/checks {
    inherit pkgs overlays;
    lib = import ../../nix/lib.nix {
      packagesFor = _: pkgs.cudaRunpath;
      pkgsFor = _: pkgs;
      inherit overlays;
    };
    homeModules = null;
    systemManagerModules = null;
  };
in
{
  # Also what the package asks for as its tests.
  tests = {
    inherit (checks)
      autoPatchelfBintools
      driverLinkOfAnOverlay
      driverLinkOfTheLinker
      dropInReplacesNixpkgsHooks
      nixpkgsFunctionIsNoOptOut
      nixpkgsOptOuts
      openedByName
      overridesOfNixpkgsHooks
      redistributablesWithDropIn
      ;
    inherit (upstream.cuda-runpath.tests) eachHookOnceHoweverOftenItComes noTraceOfTheStubIsLeft;
    inherit (upstream.fixupElfHook.tests) fixupElfNotes;
  };
  program = upstream.cuda-runpath;
  # Of the whole source, as nixpkgs fetches it: the Go modules, whose hash must be the package's.
  modules = (upstream.cuda-runpath.overrideAttrs { src = source; }).goModules;
  hooks = {
    inherit (upstream)
      autoAddDriverRunpath
      autoPatchelfHook
      cudaRunpathHook
      fixupElfHook
      ;
    overridden = upstream.autoPatchelfHook.override { auto-patchelf = null; };
    inherit (upstream.cudaPackages)
      addCudaCompatRunpath
      autoAddCudaCompatRunpath
      cudaCapabilitiesCheck
      noRunpathAmbiguity
      removeStubsFromRunpathHook
      stubReplace
      thinCuda
      ;
    ofTheSet = upstream.cudaPackages.cudaRunpathHook;
  };
}
