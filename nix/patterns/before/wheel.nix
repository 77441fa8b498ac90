{
  buildPythonPackage,
  autoAddDriverRunpath,
  autoPatchelfHook,
  cudaPackages,
  src,
}:
buildPythonPackage {
  pname = "kernels";
  version = "1.0";
  format = "wheel";
  inherit src;

  nativeBuildInputs = [
    autoPatchelfHook
    autoAddDriverRunpath # must be listed after autoPatchelfHook
  ];
  autoPatchelfIgnoreMissingDeps = [ "libcuda.so.1" ];
  buildInputs = [ cudaPackages.cuda_cudart ];
}
