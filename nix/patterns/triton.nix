{
  buildPythonPackage,
  cudaRunpathHook,
  cudaPackages,
  src,
}:
buildPythonPackage {
  pname = "kernels";
  version = "1.0";
  format = "wheel";
  inherit src;

  nativeBuildInputs = [ cudaRunpathHook ];
  buildInputs = [ cudaPackages.cuda_cudart ];
  cudaRunpathAutoPatchelf = true;
  # It asks ldconfig where the driver is.
  postInstall = ''
    runpath scripts --fix $out
  '';
}
