{
  lib,
  buildPythonPackage,
  python,
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
    autoAddDriverRunpath
  ];
  buildInputs = [
    cudaPackages.cuda_cudart
    cudaPackages.cuda_nvrtc
  ];
  autoPatchelfIgnoreMissingDeps = [ "libcuda.so.1" ];
  preFixup = ''
    addAutoPatchelfSearchPath $out/${python.sitePackages}/kernels/lib
  '';
  # libnvrtc is opened by name.
  postPhases = [ "addOpenedPhase" ];
  addOpenedPhase = ''
    find $out -name '*.so' -exec patchelf --add-rpath ${lib.getLib cudaPackages.cuda_nvrtc}/lib {} \;
  '';
  dontStrip = true;
}
