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

  # A set that is called cudaPackages and nothing else, as sets from outside nixpkgs are;
  # and one that the other machine has not at all.
  versioned =
    version:
    pkgs.pkgsCross.${other}.extend (
      _: prev: {
        cudaPackages = prev.cudaPackages.overrideScope (_: _: { cudaMajorMinorVersion = version; });
      }
    );
  onlyHere = builtins.foldl' (pkgs: overlay: pkgs.extend overlay) pkgs.pkgsCross.${other} [
    (
      _: prev: {
        # Only the stage whose programs run on this machine.
        cudaPackages = prev.cudaPackages.overrideScope (
          _: prevCuda: {
            cudaMajorMinorVersion =
              if prev.stdenv.hostPlatform.system == pkgs.stdenv.hostPlatform.system then
                "99.9"
              else
                prevCuda.cudaMajorMinorVersion;
          }
        );
      }
    )
  ];
  hookFor =
    cross: cross.callPackage ({ cudaRunpathHook }: cudaRunpathHook.__spliced.buildHost or cudaRunpathHook) { };
  textOf = hook: "$(< ${hook}/nix-support/setup-hook)";
  renamed = versioned "11.4";
  renamedCompat = renamed.cudaPackages.cuda_compat or null;
in
{
  # The compat package is found whatever the set is called; where nobody knows it, the
  # build says so instead of going without.
  crossCompat = support.check "cross-compat" (
    lib.optionalString (renamedCompat != null && renamedCompat.meta.available or true) ''
      contains "hook" "${textOf (hookFor renamed)}" "'compat=${renamedCompat}/compat'"
    ''
    + ''
      contains "hook" "${textOf (hookFor onlyHere)}" \
        "'compat-unknown=there is no set of CUDA 99.9"
      contains "log" "$(< ${
        support.logOfFailure (
          support.package {
            pname = "unknown-compat";
            nativeBuildInputs = [ (hookFor onlyHere) ];
            build = support.installCompiled;
          }
        )
      })" "there is no set of CUDA 99.9"
      runPathIs ${
        support.package {
          pname = "unknown-compat";
          nativeBuildInputs = [ (hookFor onlyHere) ];
          cudaCompat = "";
          build = support.installCompiled;
        }
      }/bin/program ${support.withoutCompat}
    ''
    # nixpkgs' CUDA sets are made with pkgs.extend, which for the build machine of a cross
    # build gives packages of the other one.
    + ''
      same "compat of another machine" "${
        toString (support.ours.hooksFor cross.cudaPackages).addCudaCompatRunpath.enableHook
      }" ""
    ''
  );

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
