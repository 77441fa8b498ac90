# One package with many ELF files, finished in three ways: see bench.
{ pkgs, files }:
let
  inherit (pkgs) lib stdenv;
  bare = {
    NIX_DONT_SET_RPATH = "1";
    NIX_NO_SELF_RPATH = "1";
  };

  stubs = stdenv.mkDerivation {
    name = "cuda12.9-cuda_cudart-12.9-stubs";
    dontUnpack = true;
    dontFixup = true;
    installPhase = ''
      mkdir -p $out/lib/stubs
      echo 'int cuInit(unsigned f) { (void)f; return 34; }' > libcuda.c
      $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o $out/lib/stubs/libcuda.so libcuda.c
      ln -s libcuda.so $out/lib/stubs/libcuda.so.1
    '';
  };

  # Libraries of about 50 KB each, with the stubs in their run paths.
  prepared = stdenv.mkDerivation {
    name = "prepared";
    dontUnpack = true;
    dontFixup = true;
    env = bare;
    installPhase = ''
      mkdir -p $out/lib
      echo 'int cuInit(unsigned); int use(void) { return cuInit(0); }
            const char data[40000] = { 1 };' > use.c
      $CC -shared -fPIC -o use.so use.c -L${stubs}/lib/stubs -lcuda -Wl,-rpath,${stubs}/lib/stubs
      for ((i = 0; i < ${toString files}; i++)); do cp use.so $out/lib/lib$i.so; done
    '';
  };

  finished =
    kind: hooks:
    stdenv.mkDerivation {
      name = "finished-${kind}";
      dontUnpack = true;
      dontStrip = true;
      dontPatchELF = true;
      nativeBuildInputs = hooks;
      installPhase = ''
        cp -r ${prepared} $out
        chmod -R u+w $out
      '';
      # The first thing that postFixup does, and the last that the build does.
      postFixup = "started=$EPOCHREALTIME";
      postPhases = "sayPhase";
      sayPhase = ''
        awk -v a=$started -v b=$EPOCHREALTIME 'BEGIN { printf "postFixup took %.2f s\n", b - a }'
      '';
    };
in
{
  inherit prepared;
  # Also what the measured packages need.
  hook = pkgs.cudaRunpathHook.override { cuda_compat = null; };
  none = finished "none" [ ];
  # The order that works: stubs, driver, compat.
  patchelf = finished "patchelf" [
    pkgs.cudaPackages.removeStubsFromRunpathHook
    pkgs.autoAddDriverRunpath
    pkgs.cudaPackages.autoAddCudaCompatRunpath
  ];
  ours = finished "ours" [ pkgs.cudaRunpathHook ];
}
