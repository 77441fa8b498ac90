# The GPUs that a CUDA set is for, and packages built for others.
support:
let
  inherit (support)
    check
    compatPackage
    inEachMode
    lib
    logOfFailure
    logOfSuccess
    ours
    package
    pkgs
    ;
  set = ours.hooksFor (
    pkgs.cudaPackages
    // {
      flags = {
        cudaCapabilities = [
          "8.0"
          "9.0"
        ];
        cudaForwardCompat = true;
      };
      cuda_compat = compatPackage;
    }
  );

  # Container and entries as nvcc leaves them, of no code; PTX is kind 1, cubins are kind 2. Compiled once for each list.
  installKernels = entries: ''
    mkdir -p $out/lib
    cp ${
      package {
        pname = "compiled-kernels";
        dontFixup = true;
        build = compile entries;
      }
    }/lib/libkernels.so $out/lib
    chmod u+w $out/lib/libkernels.so
  '';
  compile = entries: ''
    mkdir -p $out/lib
    cat > kernels.s <<'END'
    .macro entry kind, arch
      .2byte \kind, 0x101
      .4byte 64
      .8byte 8000
      .4byte 0, 0
      .2byte 0, 8
      .4byte \arch, 0, 0
      .8byte 0x11, 0, 0
      .zero 8000
    .endm
    .section .nv_fatbin,"a",%progbits
    .balign 8
    .4byte 0xBA55ED50
    .2byte 1, 16
    .8byte 2f - 1f
    1:
    ${lib.concatMapStrings (entry: "entry ${entry}\n") entries}
    2:
    END
    $CC -shared -nostdlib -o $out/lib/libkernels.so kernels.s
  '';
  kernels =
    args: entries:
    package (
      {
        pname = "kernels";
        nativeBuildInputs = [ set.cudaCapabilitiesCheck ];
        build = installKernels entries;
      }
      // args
    );
  # For another machine: what checks runs on this one.
  other = if pkgs.stdenv.hostPlatform.isAarch64 then "gnu64" else "aarch64-multiplatform";
  crossKernels =
    capabilities:
    pkgs.pkgsCross.${other}.callPackage (
      { stdenv, cudaCapabilitiesCheck }:
      stdenv.mkDerivation {
        pname = "cross-kernels";
        version = "1.0";
        dontUnpack = true;
        env = support.bare;
        nativeBuildInputs = [ cudaCapabilitiesCheck ];
        cudaCapabilities = capabilities;
        installPhase = compile wrong;
      }
    ) { };
  right = [
    "2, 80"
    "2, 90"
    "1, 90"
  ];
  wrong = [ "2, 80" ];
  succeeds = what: args: entries: ''
    contains "${what}" "$(< ${logOfSuccess (kernels args entries)})" "exit status 0"
  '';
  failsWith = message: args: ''
    log=$(< ${logOfFailure (kernels args wrong)})
    contains "log" "$log" ${lib.escapeShellArg message}
    contains "log" "$log" "cudaCapabilitiesCheck failed with exit status 1"
  '';
in
{
  wrongCapabilitiesFailTheBuild = check "capabilities" (
    inEachMode (
      mode:
      failsWith "lib/libkernels.so: error: has no code for 9.0 in 1 container: there is sm_80" mode
      + succeeds "for all that were asked for" mode right
      # The package's own list, as a string and as a list.
      + succeeds "its own list" (mode // { cudaCapabilities = [ "8.0" ]; }) wrong
      + succeeds "its own list, which is empty" (mode // { cudaCapabilities = [ ]; }) wrong
      + succeeds "its own string" (mode // { cudaCapabilities = "8.0 8.6"; }) wrong
      + failsWith "has no code for 12.0" (mode // { cudaCapabilities = [ "12.0" ]; })
      + succeeds "a warning" (mode // { cudaCapabilitiesCheckFlags = [ "--warn" ]; }) wrong
      + succeeds "switched off" (mode // { dontCudaCapabilitiesCheck = true; }) wrong
      # In cudaRunpathHook it is off by default.
      + succeeds "among all hooks" (mode // { nativeBuildInputs = [ set.cudaRunpathHook ]; }) wrong
      + failsWith "has no code for 9.0" (
        mode
        // {
          nativeBuildInputs = [ set.cudaRunpathHook ];
          cudaCapabilities = "8.0 9.0+PTX";
          cudaRunpathCheckCapabilities = true;
        }
      )
    )
    + ''
      contains "no list" "$(< ${
        logOfSuccess (
          kernels { nativeBuildInputs = [ (ours.hooksFor { }).cudaCapabilitiesCheck ]; } wrong
        )
      })" "nothing to do"
    ''
  );

  crossCapabilities = check "cross-capabilities" ''
    contains "log" "$(< ${logOfFailure (crossKernels [ "9.0" ])})" \
      "lib/libkernels.so: error: has no code for 9.0 in 1 container: there is sm_80"
    contains "another" "$(< ${logOfSuccess (crossKernels [ "8.0" ])})" "exit status 0"
  '';

  # What the set says, of each form that nixpkgs has had, and sets that say nothing.
  capabilitiesOfSets = check "capabilities-of-sets" (
    lib.concatMapStrings
      (
        { set, is }:
        ''
          same "list" ${
            lib.escapeShellArg (
              import ../capabilities.nix {
                inherit lib;
                cudaPackages = set;
              }
            )
          } ${lib.escapeShellArg is}
        ''
      )
      [
        {
          set.flags.cudaCapabilities = [
            "7.5"
            "9.0a"
          ];
          set.flags.cudaForwardCompat = false;
          is = "7.5 9.0a";
        }
        {
          set.cudaFlags = {
            cudaCapabilities = [ "8.6" ];
            enableForwardCompat = true;
          };
          is = "8.6+PTX";
        }
        {
          set.flags.cudaCapabilities = throw "not for this platform";
          is = "";
        }
        {
          set = { };
          is = "";
        }
      ]
  );
}
