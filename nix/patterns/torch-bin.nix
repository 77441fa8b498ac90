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
  buildInputs = [
    cudaPackages.cuda_cudart
    cudaPackages.cuda_nvrtc
  ];
  cudaRunpathAutoPatchelf = true;
  # libnvrtc is opened by name.
  cudaOpened = true;
  dontStrip = true;
}
