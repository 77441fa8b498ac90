{
  lib,
  stdenv,
  cmake,
  cudaRunpathHook,
  cudaPackages,
  src,
}:
stdenv.mkDerivation {
  pname = "kernels";
  version = "1.0";
  inherit src;

  nativeBuildInputs = [
    cmake
    cudaRunpathHook
  ];
  buildInputs = [ cudaPackages.cuda_cudart ];
  cmakeFlags = [
    "-DCUDA_cuda_driver_LIBRARY=${lib.getOutput "stubs" cudaPackages.cuda_cudart}/lib/stubs/libcuda.so"
    "-DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON"
  ];
}
