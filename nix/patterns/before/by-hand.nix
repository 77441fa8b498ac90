{
  stdenv,
  addDriverRunpath,
  src,
}:
stdenv.mkDerivation {
  pname = "kernels";
  version = "1.0";
  inherit src;

  nativeBuildInputs = [ addDriverRunpath ];
  buildPhase = ''
    $CC -shared -fPIC -o libkernels.so kernels.c
  '';
  installPhase = ''
    install -D libkernels.so $out/lib/libkernels.so
  '';
  postFixup = ''
    for file in $out/lib/*.so; do
      addDriverRunpath "$file"
    done
  '';
}
