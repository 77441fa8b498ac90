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
  cudaRunpathAutoPatchelf = true;
  buildInputs = [ cudaPackages.cuda_cudart ];
}
