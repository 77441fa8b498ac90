{
  stdenv,
  cudaRunpathHook,
  src,
}:
stdenv.mkDerivation {
  pname = "kernels";
  version = "1.0";
  inherit src;

  nativeBuildInputs = [ cudaRunpathHook ];
  buildPhase = ''
    $CC -shared -fPIC -o libkernels.so kernels.c
  '';
  installPhase = ''
    install -D libkernels.so $out/lib/libkernels.so
  '';
}
