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

  nativeBuildInputs = [ cudaPackages.cuda_nvcc ];
  buildInputs = [ cudaPackages.cuda_cudart ];
  buildPhase = ''
    nvcc -o kernels kernels.cu -L${lib.getOutput "stubs" cudaPackages.cuda_cudart}/lib/stubs -lcuda \
      -Xlinker -rpath -Xlinker ${addDriverRunpath.driverLink}/lib
  '';
  installPhase = ''
    install -D kernels $out/bin/kernels
  '';
  # The shrink step would take the driver's directory out again.
  dontPatchELF = true;
}
