{
  lib,
  stdenv,
  cmake,
  autoAddDriverRunpath,
  cudaPackages,
  src,
}:
stdenv.mkDerivation {
  pname = "kernels";
  version = "1.0";
  inherit src;

  nativeBuildInputs = [
    cmake
    autoAddDriverRunpath
  ];
  buildInputs = [ cudaPackages.cuda_cudart ];
  cmakeFlags = [
    "-DCUDA_cuda_driver_LIBRARY=${lib.getOutput "stubs" cudaPackages.cuda_cudart}/lib/stubs/libcuda.so"
    "-DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON"
  ];
  # The stubs are in the run path, too.
  postFixup = ''
    for file in $out/bin/*; do
      patchelf --set-rpath "$(patchelf --print-rpath "$file" | tr : '\n' | sed /stubs/d | paste -sd :)" "$file"
    done
  '';
}
