# One package with many ELF files, finished in several ways: see bench.
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
      $CC -shared -fPIC -o use.so use.c -L${stubs}/lib/stubs -lcuda -Wl,-rpath,/none:${stubs}/lib/stubs
      for ((i = 0; i < ${toString files}; i++)); do cp use.so $out/lib/lib$i.so; done
    '';
  };

  finished =
    kind: hooks: args:
    stdenv.mkDerivation (args // {
      name = "finished-${kind}";
      dontUnpack = true;
      dontStrip = true;
      nativeBuildInputs = hooks;
      installPhase = ''
        cp -r ${prepared} $out
        chmod -R u+w $out
      '';
      # The first thing that fixup does, and the last that the build does.
      preFixup = ''
        started=$EPOCHREALTIME
        read -ra cpu < /proc/$$/stat
      '';
      postPhases = "sayPhase";
      sayPhase = ''
        ended=$EPOCHREALTIME
        read -ra now < /proc/$$/stat
        awk -v a=$started -v b=$ended -v ticks=$((now[13] + now[14] + now[15] + now[16] - cpu[13] - cpu[14] - cpu[15] - cpu[16])) \
          'BEGIN { printf "fixup took %.2f s, and %.2f s of the processors\n", b - a, ticks / 100 }'
      '';
    });
  # Without stdenv's own steps for ELF files.
  notShrunk = {
    dontPatchELF = true;
    noAuditTmpdir = true;
  };
in
{
  inherit prepared;
  # Also what the measured packages need.
  hook = pkgs.cudaRunpathHook.override { cuda_compat = null; };
  none = finished "none" [ ] notShrunk;
  # The order that works: stubs, driver, compat.
  patchelf = finished "patchelf" [
    pkgs.cudaPackages.removeStubsFromRunpathHook
    pkgs.autoAddDriverRunpath
    pkgs.cudaPackages.autoAddCudaCompatRunpath
  ] notShrunk;
  ours = finished "ours" [ pkgs.cudaRunpathHook ] notShrunk;
  # stdenv's own steps.
  stdenv = finished "stdenv" [ ] { };
  elf = finished "elf" [ pkgs.fixupElfHook ] { };
}
