{
  lib,
  stdenv,
  cudaRunpathHook,
  cudaPackages,
  src,
}:
stdenv.mkDerivation {
  pname = "kernels";
  version = "1.0";
  inherit src;

  nativeBuildInputs = [
    cudaPackages.cuda_nvcc
    cudaRunpathHook
  ];
  buildInputs = [ cudaPackages.cuda_cudart ];
  buildPhase = ''
    nvcc -o kernels kernels.cu -L${lib.getOutput "stubs" cudaPackages.cuda_cudart}/lib/stubs -lcuda
  '';
  installPhase = ''
    install -D kernels $out/bin/kernels
  '';
}
