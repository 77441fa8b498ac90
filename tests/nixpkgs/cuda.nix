# A small CUDA: a toolkit package with the driver's stubs, a compat package, and
# patchelf-based hooks with the names, and the faults, of nixpkgs'.
{
  lib,
  pkgs,
  shape,
}:
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
      # What its cuda_compat's cuDriverGetVersion answers; null: it has none.
      compat,
    }:
    final: {
      recurseForDerivations = true;
      cudaMajorMinorVersion = version;
      cudaNamePrefix = "cuda${version}";
      # Members of a set take the other members from packages in which their set is the default.
      pkgs = pkgs.extend (_: _: { cudaPackages = final; });
      callPackage = lib.callPackageWith (pkgs // final);

      # What makes a package of an archive of NVIDIA's. Its hook demands that an output
      # propagates something called removeStubsFromRunpathHook if it has stubs, and only
      # then.
      buildRedist =
        {
          pname,
          build,
          includeRemoveStubsFromRunpathHook ? false,
          ...
        }@arguments:
        pkgs.stdenv.mkDerivation (
          {
            name = "${final.cudaNamePrefix}-${pname}-${version}.0";
            __structuredAttrs = true;
            strictDeps = true;
            dontUnpack = true;
            env.NIX_DONT_SET_RPATH = "1";
            nativeBuildInputs = [
              ./hooks/cuda-redist.sh
              pkgs.autoPatchelfHook
              pkgs.autoAddDriverRunpath
            ]
            ++ lib.optionals (pname != "cuda_compat" && final.autoAddCudaCompatRunpath.enableHook) [
              final.autoAddCudaCompatRunpath
            ];
            propagatedNativeBuildInputs = lib.optionals includeRemoveStubsFromRunpathHook [
              final.removeStubsFromRunpathHook
            ];
            installPhase = build;
            meta.available = true;
          }
          // removeAttrs arguments [
            "build"
            "includeRemoveStubsFromRunpathHook"
          ]
        );

      cuda_cudart = final.buildRedist {
        pname = "cuda_cudart";
        outputs = [
          "out"
          "stubs"
        ];
        includeRemoveStubsFromRunpathHook = true;
        build = ''
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
          mkdir -p $out/share/pkgconfig
          echo "Libs: -L$out/lib -Wl,-rpath,/run/opengl-driver/lib -lcudart" > $out/share/pkgconfig/cudart.pc
        '';
      };
      # Stubs, and no output of that name.
      cuda_nvml_dev = final.buildRedist {
        pname = "cuda_nvml_dev";
        includeRemoveStubsFromRunpathHook = true;
        build = ''
          mkdir -p $out/lib/stubs
          echo 'int nvmlInit(void) { return 34; }' > libnvidia-ml.c
          $CC -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o $out/lib/stubs/libnvidia-ml.so libnvidia-ml.c
        '';
      };
      # No stubs at all.
      libcublas = final.buildRedist {
        pname = "libcublas";
        build = ''
          mkdir -p $out/lib
          echo 'int cublasCreate(void) { return 0; }' > libcublas.c
          $CC -shared -fPIC -Wl,-soname,libcublas.so.12 -o $out/lib/libcublas.so.12 libcublas.c
        '';
      };
      cuda_compat =
        if compat != null then
          final.buildRedist {
            pname = "cuda_compat";
            build = ''
              mkdir -p $out/compat
              ${driver {
                version = compat;
                status = 0;
              }}
              $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o $out/compat/libcuda.so.1 libcuda.c
              ln -s libcuda.so.1 $out/compat/libcuda.so
            '';
          }
        else
          null;
      autoAddCudaCompatRunpath = makeSetupHook {
        name = "auto-add-cuda-compat-runpath-hook";
        propagatedBuildInputs = [ pkgs.autoFixElfFiles ];
        substitutions.compat = lib.optionalString (final.cuda_compat != null) "${final.cuda_compat}/compat";
        passthru.enableHook = final.cuda_compat != null;
      } ./hooks/nixpkgs-compat.sh;
      removeStubsFromRunpathHook = makeSetupHook {
        name = "removeStubsFromRunpathHook";
        propagatedBuildInputs =
          lib.optional (pkgs ? arrayUtilities) pkgs.arrayUtilities.getRunpathEntries
          ++ [ pkgs.autoFixElfFiles ];
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
    set (lib.composeManyExtensions (pkgs._cuda.extensions or [ ]));
in
# How the set looks in a release of nixpkgs: which sets there are, whether they are
# extended by _cuda.extensions, what throws.
(
  if shape == "25.05" then
    {
      # _cuda is there, without extensions; no set throws.
      _cuda = lib.makeExtensible (_: { });
      cudaPackages_11_8 = makeSet {
        version = "11.8";
        compat = 11080;
      };
      cudaPackages_11 = pkgs.cudaPackages_11_8;
    }
  else
    {
      _cuda = lib.makeExtensible (_: {
        extensions = [ ];
      });
      arrayUtilities = {
        recurseForDerivations = true;
        getRunpathEntries = makeSetupHook {
          name = "getRunpathEntries";
        } ./hooks/get-runpath-entries.sh;
      };
      cudaPackages_11 = throw "cudaPackages_11 has been removed";
      cudaPackages_11_8 = throw "cudaPackages_11_8 has been removed";
      cudaPackages_12_0 = throw "cudaPackages_12_0 has been removed";
    }
)
// {
  cudaPackages = pkgs.cudaPackages_12;
  cudaPackages_12 = pkgs.cudaPackages_12_9;
  cudaPackages_12_6 = makeSet {
    version = "12.6";
    compat = null;
  };
  cudaPackages_12_9 = makeSet {
    version = "12.9";
    compat = 12090;
  };
  cudaPackages_13 = pkgs.cudaPackages_13_0;
  cudaPackages_13_0 = makeSet {
    version = "13.0";
    compat = 13000;
  };

  autoFixElfFiles = makeSetupHook { name = "auto-fix-elf-files"; } ./hooks/nixpkgs-fix-elf-files.sh;
  # As in nixpkgs, driverLink is an attribute of the derivation, which an overlay can
  # override, and in passthru, which then stays as it is.
  addDriverRunpath = makeSetupHook {
    name = "add-driver-runpath-hook";
    substitutions.driverLink = "/run/opengl-driver";
    passthru.driverLink = "/run/opengl-driver";
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
          if [[ -z ''${dontUseAutoAddDriverRunpath-}''${dontUseAutoAddOpenGLRunpath-} ]]; then
            postFixupHooks+=("autoFixElfFiles addDriverRunpath")
          fi
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
