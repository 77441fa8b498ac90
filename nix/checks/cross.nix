# Cross builds: the tools run on the build machine and edit files for another one.
support:
let
  inherit (support) lib pkgs;
  other = if pkgs.stdenv.hostPlatform.isAarch64 then "gnu64" else "aarch64-multiplatform";
  cross = pkgs.pkgsCross.${other};
  machine = if pkgs.stdenv.hostPlatform.isAarch64 then "X86-64" else "AArch64";

  compat = cross.callPackage (
    { stdenv }:
    stdenv.mkDerivation {
      name = "cuda_compat-for-the-host";
      dontUnpack = true;
      installPhase = ''
        mkdir -p $out/compat
        echo 'int cuInit(unsigned f) { (void)f; return 0; }' > libcuda.c
        $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o $out/compat/libcuda.so.1 libcuda.c
      '';
    }
  ) { };

  # Without a setting: the compat package of the machine that the files are for.
  theirs = cross.cudaPackages.cuda_compat or null;
  defaultCompat = lib.optionalString (
    theirs != null && theirs.meta.available or true
  ) "${theirs}/compat:";

  # A package for the other machine. callPackage splices: what is named in
  # nativeBuildInputs is the one that runs on the build machine.
  crossPackage =
    list: args:
    cross.callPackage (
      {
        stdenv,
        cudaRunpathHook,
        stubReplace,
      }:
      stdenv.mkDerivation (
        {
          pname = "cross";
          version = "1.0";
          dontUnpack = true;
          env = support.bare;
          ${list} = [
            cudaRunpathHook
            stubReplace
          ];
          installPhase = ''
            mkdir -p $out/lib stubs
            echo 'int cuInit(unsigned f) { (void)f; return 34; }' > libcuda.c
            $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o stubs/libcuda.so libcuda.c
            echo 'int cuInit(unsigned); int use(void) { return cuInit(0); }' > use.c
            $CC -shared -fPIC -o $out/lib/libuse.so use.c -Lstubs -lcuda -Wl,-rpath,/opt/cuda/lib/stubs:/opt/math/lib
          '';
          dontPatchELF = true;
        }
        // args
      )
    ) { };
in
{
  crossBuild = support.check "cross" (
    lib.concatMapStrings
      (package: ''
        runPathIs ${package}/lib/libuse.so ${compat}/compat:/run/opengl-driver/lib:/opt/math/lib
        contains "machine" "$(readelf -hW ${package}/lib/libuse.so)" ${machine}
      '')
      [
        (crossPackage "nativeBuildInputs" { cudaCompat = "${compat}/compat"; })
        (crossPackage "depsBuildBuild" { cudaCompat = "${compat}/compat"; })
        # Not where a hook belongs, but it works there too.
        (crossPackage "buildInputs" { cudaCompat = "${compat}/compat"; })
      ]
    + ''
      runPathIs ${
        (crossPackage "nativeBuildInputs" { })
      }/lib/libuse.so ${defaultCompat}/run/opengl-driver/lib:/opt/math/lib
    ''
  );
}
