{
  stdenv,
  cudaRunpathHook,
  cudaPackages,
  src,
}:
stdenv.mkDerivation {
  pname = "kernels";
  version = "1.0";
  inherit src;

  nativeBuildInputs = [ cudaRunpathHook ];
  buildInputs = [ cudaPackages.cuda_cudart ];
  cudaRunpathAutoPatchelf = true;
  installPhase = ''
    cp -r . $out
  '';
}
