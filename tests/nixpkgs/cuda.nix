# A small CUDA: a toolkit package with the driver's stubs, a compat package, and
# patchelf-based hooks with the names, and the faults, of nixpkgs'.
{ lib, pkgs }:
let
  inherit (pkgs) runCommand makeSetupHook writeText;

  # A libcuda whose cuDriverGetVersion answers VERSION and whose cuInit answers STATUS
  # (34 is CUDA_ERROR_STUB_LIBRARY).
  driver =
    {
      version,
      status,
    }:
    ''
      cat > libcuda.c <<'C'
      int cuInit(unsigned f) { (void)f; return ${toString status}; }
      int cuDriverGetVersion(int *v) { *v = ${toString version}; return ${toString status}; }
      C
    '';

  packageSet =
    {
      version,
      hasCompat,
    }:
    final: {
      recurseForDerivations = true;
      cudaMajorMinorVersion = version;
      cuda_cudart =
        pkgs.runCommand "cuda${version}-cuda_cudart-${version}.0"
          {
            outputs = [
              "out"
              "stubs"
            ];
            meta.available = true;
            NIX_DONT_SET_RPATH = "1";
          }
          ''
            mkdir -p $out/lib $stubs/lib/stubs
            ${driver {
              version = 0;
              status = 34;
            }}
            $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o $stubs/lib/stubs/libcuda.so libcuda.c
            echo 'int nvmlInit(void) { return 34; }' > libnvidia-ml.c
            $CC -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o $stubs/lib/stubs/libnvidia-ml.so libnvidia-ml.c
            echo 'int cudaGetDriver(void) { return 12; }' > libcudart.c
            $CC -shared -fPIC -Wl,-soname,libcudart.so.12 -o $out/lib/libcudart.so.12 libcudart.c
            ln -s libcudart.so.12 $out/lib/libcudart.so
          '';
      cuda_compat =
        if hasCompat then
          pkgs.runCommand "cuda${version}-cuda_compat-${version}.0"
            {
              meta.available = true;
              NIX_DONT_SET_RPATH = "1";
            }
            ''
              mkdir -p $out/compat
              ${driver {
                version = 12090;
                status = 0;
              }}
              $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o $out/compat/libcuda.so.1 libcuda.c
              ln -s libcuda.so.1 $out/compat/libcuda.so
            ''
        else
          null;
      autoAddCudaCompatRunpath = makeSetupHook {
        name = "auto-add-cuda-compat-runpath-hook";
        propagatedBuildInputs = [ pkgs.autoFixElfFiles ];
        substitutions.compat = lib.optionalString (final.cuda_compat != null) "${final.cuda_compat}/compat";
      } ./hooks/nixpkgs-compat.sh;
      removeStubsFromRunpathHook = makeSetupHook {
        name = "removeStubsFromRunpathHook";
        propagatedBuildInputs = [ pkgs.autoFixElfFiles ];
        substitutions = { inherit (pkgs.addDriverRunpath) driverLink; };
      } ./hooks/nixpkgs-stubs.sh;
    };
  makeSet =
    arguments:
    let
      set =
        overlay:
        lib.fix (lib.extends overlay (packageSet arguments))
        // {
          overrideScope =
            more:
            set (
              lib.composeManyExtensions [
                overlay
                more
              ]
            );
        };
    in
    set (lib.composeManyExtensions pkgs._cuda.extensions);
in
{
  _cuda = lib.makeExtensible (_: {
    extensions = [ ];
  });
  cudaPackages = pkgs.cudaPackages_12;
  cudaPackages_12 = makeSet {
    version = "12.9";
    hasCompat = true;
  };
  cudaPackages_13 = makeSet {
    version = "13.0";
    hasCompat = false;
  };

  autoFixElfFiles = makeSetupHook { name = "auto-fix-elf-files"; } ./hooks/nixpkgs-fix-elf-files.sh;
  addDriverRunpath = makeSetupHook rec {
    name = "add-driver-runpath-hook";
    substitutions.driverLink = "/run/opengl-driver";
    passthru = substitutions;
  } ./hooks/nixpkgs-driver.sh;
  autoAddDriverRunpath =
    makeSetupHook
      {
        name = "auto-add-driver-runpath-hook";
        propagatedBuildInputs = [
          pkgs.addDriverRunpath
          pkgs.autoFixElfFiles
        ];
      }
      (
        writeText "auto-add-driver-runpath-hook.sh" ''
          postFixupHooks+=("autoFixElfFiles addDriverRunpath")
        ''
      );

  # A small package with libraries, to depend on.
  hello-libs = runCommand "hello-libs" { NIX_DONT_SET_RPATH = "1"; } ''
    mkdir -p $out/lib
    echo 'int greet(void) { return 7; }' > greet.c
    $CC -shared -fPIC -Wl,-soname,libgreet.so.1 -o $out/lib/libgreet.so.1 greet.c
    ln -s libgreet.so.1 $out/lib/libgreet.so
  '';
}
