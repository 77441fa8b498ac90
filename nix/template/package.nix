# A program that asks the driver for its version. The one line that matters is
# nativeBuildInputs.
{
  lib,
  stdenv,
  runCommand,
  cudaPackages,
  cudaRunpathHook,
}:
stdenv.mkDerivation (finalAttrs: {
  pname = "driver-version";
  version = "1.0";
  src = lib.cleanSourceWith {
    src = ./.;
    filter = path: _: lib.hasSuffix ".c" path;
    name = "driver-version-source";
  };

  strictDeps = true;
  __structuredAttrs = true;
  nativeBuildInputs = [ cudaRunpathHook ];

  # libcuda.so.1 comes with the driver, so the build links against the toolkit's stub.
  buildPhase = ''
    $CC driver-version.c -o driver-version \
      -L${lib.getOutput "stubs" cudaPackages.cuda_cudart}/lib/stubs -lcuda
  '';
  installPhase = ''
    install -D driver-version $out/bin/driver-version
  '';

  # There is no driver in the build sandbox; this lets the program start there.
  stubReplaceForChecks = true;
  doInstallCheck = true;
  installCheckPhase = ''
    $out/bin/driver-version --help
  '';

  # `nix build .#default.gpuCheck` on a machine whose Nix shows the GPU to builds that ask
  # for it: after `sudo "$(command -v hostDriver)" sandbox` (on NixOS, with
  # programs.nix-required-mounts).
  passthru.gpuCheck =
    runCommand "${finalAttrs.pname}-gpu-check" { requiredSystemFeatures = [ "cuda" ]; }
      ''
        ${finalAttrs.finalPackage}/bin/driver-version | tee $out
      '';

  meta = {
    description = "Prints the CUDA version that the GPU driver supports";
    license = lib.licenses.mit;
    mainProgram = "driver-version";
    platforms = lib.platforms.linux;
  };
})
