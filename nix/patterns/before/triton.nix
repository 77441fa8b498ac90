{
  buildPythonPackage,
  addDriverRunpath,
  autoPatchelfHook,
  cudaPackages,
  src,
}:
buildPythonPackage {
  pname = "kernels";
  version = "1.0";
  format = "wheel";
  inherit src;

  nativeBuildInputs = [ autoPatchelfHook ];
  buildInputs = [ cudaPackages.cuda_cudart ];
  autoPatchelfIgnoreMissingDeps = [ "libcuda.so.1" ];
  # It asks ldconfig where the driver is.
  postInstall = ''
    substituteInPlace $out/lib/python*/site-packages/kernels/driver.py \
      --replace-fail 'libs = subprocess.' 'return ["${addDriverRunpath.driverLink}/lib"]; libs = subprocess.'
  '';
}
