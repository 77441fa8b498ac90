{
  lib,
  stdenv,
  addDriverRunpath,
  cudaPackages,
  src,
}:
stdenv.mkDerivation {
  pname = "kernels";
  version = "1.0";
  inherit src;

  installPhase = ''
    cp -r . $out
    for file in $out/bin/*; do
      patchelf --set-interpreter "$(cat $NIX_BINTOOLS/nix-support/dynamic-linker)" "$file"
    done
    for file in $out/bin/* $out/lib/*.so*; do
      patchelf --set-rpath '$ORIGIN/../lib:${addDriverRunpath.driverLink}/lib:${lib.getLib cudaPackages.cuda_cudart}/lib' "$file"
    done
  '';
  # The shrink step would take the driver's directory out again.
  dontPatchELF = true;
}
