# What packages switch nixpkgs' hooks off with, one by one: it works on the hooks that
# overlays.dropIn puts in their place, too, but for another body of a function.
support: flake:
let
  inherit (support)
    check
    compat
    compatPackage
    driver
    greet
    inEachMode
    inNormalForm
    installCompiled
    lib
    logOfFailure
    logOfSuccess
    package
    pkgs
    stubs
    withoutCompat
    ;
  dropIn = pkgs.extend flake.overlays.dropIn;
  hooksOf = pkgs: [
    pkgs.cudaPackages.removeStubsFromRunpathHook
    pkgs.autoAddDriverRunpath
    (pkgs.cudaPackages.autoAddCudaCompatRunpath.override { cuda_compat = compatPackage; })
  ];

  built =
    args:
    package (
      {
        pname = "knobs";
        nativeBuildInputs = hooksOf dropIn;
        # What the stub hook leaves is still there to be seen.
        dontPatchELF = true;
        build = installCompiled;
      }
      // args
    );
  runPathsAre = args: list: ''
    runPathIs ${built args}/bin/program ${list}
    runPathIs ${built args}/lib/libuse.so ${list}
  '';
  # The list without its entry "autoFixElfFiles FUNCTION", in the ways that packages do it.
  takesOut = function: [
    { preFixup = ''postFixupHooks=("''${postFixupHooks[@]/autoFixElfFiles ${function}}")''; }
    {
      preFixup = ''
        kept=()
        for entry in "''${postFixupHooks[@]}"; do
          if [[ $entry != *${function} ]]; then kept+=("$entry"); fi
        done
        postFixupHooks=("''${kept[@]}")
      '';
    }
    # That leaves a hole in the array, here as its first element.
    {
      preFixup = ''
        for i in "''${!postFixupHooks[@]}"; do
          if [[ ''${postFixupHooks[i]} == *${function} ]]; then unset "postFixupHooks[i]"; fi
        done
        postFixupHooks=(first "''${postFixupHooks[@]}")
        unset "postFixupHooks[0]"
      '';
    }
    # Where no fixupOutput follows, the entries run as they do in nixpkgs.
    {
      fixupPhase = ''
        postFixupHooks=("''${postFixupHooks[@]/autoFixElfFiles ${function}}")
        runHook postFixup
      '';
    }
  ];
  # Another body is for the package's own calls.
  redefines =
    let
      bodies =
        body:
        lib.concatMapStrings (function: "${function}() { ${body}; }\n") [
          "removeStubsFromRunpath"
          "addDriverRunpath"
          "addCudaCompatRunpath"
        ];
    in
    [
      { preFixup = bodies ":"; }
      {
        postInstall = bodies "echo \"$1 is fine as it is\"" + "addDriverRunpath mine > $out/said";
      }
      { fixupPhase = bodies ":" + "runHook postFixup"; }
    ];

  # What is left of the run path where one of the three does nothing.
  withoutStubs = inNormalForm;
  withStubs = "${compat}:${driver}:${stubs}:${greet}/lib";
  knobs = [
    {
      switches = [
        { removeStubsFromRunpathHookOnce = "1"; }
        { dontStubReplace = true; }
      ];
      ways = takesOut "removeStubsFromRunpath";
      list = withStubs;
    }
    {
      # removeStubsFromRunpathHook asks for the driver too, in place of the stubs.
      switches = [
        { dontUseAutoAddDriverRunpath = true; }
        { dontUseAutoAddOpenGLRunpath = true; }
      ];
      # The ways are the same for each of the three.
      ways = [ (builtins.head (takesOut "addDriverRunpath")) ];
      more.removeStubsFromRunpathHookOnce = "1";
      list = "${compat}:${stubs}:${greet}/lib";
    }
    {
      ways = [ (lib.last (takesOut "addCudaCompatRunpath")) ];
      list = withoutCompat;
    }
  ];

  # What a stub is replaced by, where the set has a compat package and no other hook brings one.
  compatInPlaceOfStubs =
    let
      theirs = dropIn.cudaPackages.cuda_compat or null;
    in
    lib.optionalString (theirs != null && theirs.meta.available or true) "${theirs}/compat:";

  # Another link, as people give it to nixpkgs' hook.
  otherDriver = pkgs.addDriverRunpath.overrideAttrs (_: {
    driverLink = "/opt/gpu";
  });
  other = pkgs.extend (
    _: prev: {
      addDriverRunpath = prev.addDriverRunpath.overrideAttrs (_: {
        driverLink = "/opt/gpu";
      });
    }
  );
in
{
  nixpkgsOptOuts = check "opt-outs" (
    inEachMode (mode: runPathsAre mode withoutStubs)
    + lib.concatMapStrings (way: runPathsAre way withoutStubs) redefines
    + lib.concatMapStrings (
      {
        # Attributes, of which structured ones are others, and what phases do.
        switches ? [ ],
        ways,
        list,
        more ? { },
      }:
      lib.concatMapStrings (way: runPathsAre (more // way) list) ways
      + inEachMode (
        mode: lib.concatMapStrings (switch: runPathsAre (mode // more // switch) list) switches
      )
    ) knobs
    + ''
      contains "log" "$(< ${logOfSuccess (built { removeStubsFromRunpathHookOnce = "1"; })})" \
        "stubReplace: switched off by removeStubsFromRunpathHookOnce"
      contains "log" "$(< ${logOfSuccess (built (builtins.head (takesOut "addDriverRunpath")))})" \
        "autoAddDriverRunpath: switched off: 'autoFixElfFiles addDriverRunpath' is no longer in postFixupHooks"
      same "what the package's own function says" "$(< ${built (builtins.elemAt redefines 1)}/said)" "mine is fine as it is"
    ''
  );

  # nixpkgs' to-do: "driverLink or cuda_compat, where appropriate".
  compatInPlaceOfAStub = check "compat-for-stubs" (
    inEachMode (
      mode:
      let
        args = mode // {
          nativeBuildInputs = [ dropIn.cudaPackages.removeStubsFromRunpathHook ];
          build = installCompiled + ''
            ${pkgs.patchelf}/bin/patchelf --set-rpath ${greet}/lib --remove-needed libcuda.so.1 $out/lib/libuse.so
          '';
        };
      in
      ''
        runPathIs ${built args}/bin/program ${compatInPlaceOfStubs}${withoutCompat}
        runPathIs ${built args}/lib/libuse.so ${greet}/lib
      ''
    )
  );

  # nixpkgs' addDriverRunpath, which many packages list beside the hook, is no redefinition.
  nixpkgsFunctionIsNoOptOut = check "nixpkgs-function" (
    lib.concatMapStrings
      (
        order:
        inEachMode (
          mode:
          let
            args = mode // {
              nativeBuildInputs = order ([ dropIn.addDriverRunpath ] ++ [ dropIn.autoAddDriverRunpath ]);
            };
          in
          runPathsAre args "${driver}:${stubs}:${greet}/lib"
          + ''
            lacks "log" "$(< ${logOfSuccess (built args)})" "switched off"
          ''
        )
      )
      [
        (list: list)
        lib.reverseList
      ]
  );

  # An overlay that gives addDriverRunpath another driverLink speaks to our hooks too.
  driverLinkOfAnOverlay = check "driver-link-overlay" (
    lib.concatMapStrings
      (pkgs: ''
        runPathIs ${built { nativeBuildInputs = hooksOf pkgs; }}/bin/program ${compat}:/opt/gpu/lib:${greet}/lib
      '')
      [
        (other.extend flake.overlays.dropIn)
        # Without the overlay, nixpkgs' own hooks: in another order.
      ]
    + ''
      runPathIs ${
        built {
          nativeBuildInputs = [ (other.cudaRunpathHook.override { cuda_compat = compatPackage; }) ];
        }
      }/bin/program ${compat}:/opt/gpu/lib:${greet}/lib
      runPathIs ${
        built {
          nativeBuildInputs = hooksOf (other.extend flake.overlays.dropIn);
          driverLink = "/opt/other";
        }
      }/bin/program ${compat}:/opt/other/lib:${greet}/lib
    ''
  );

  # What people give nixpkgs' hooks by override counts here where it means something.
  overridesOfNixpkgsHooks = check "overrides" ''
    runPathIs ${
      built {
        nativeBuildInputs = [ (dropIn.autoAddDriverRunpath.override { addDriverRunpath = otherDriver; }) ];
      }
    }/bin/program /opt/gpu/lib:${stubs}:${greet}/lib
    runPathIs ${
      built {
        nativeBuildInputs = [
          (dropIn.cudaPackages.removeStubsFromRunpathHook.override {
            inherit (dropIn) autoFixElfFiles;
            addDriverRunpath = otherDriver;
          })
        ];
      }
    }/bin/program ${compatInPlaceOfStubs}/opt/gpu/lib:${greet}/lib
    runPathIs ${
      built {
        nativeBuildInputs = [
          (dropIn.autoAddDriverRunpath.overrideAttrs { name = "driver-hook"; })
          (dropIn.cudaPackages.autoAddCudaCompatRunpath.override { cuda_compat = compatPackage; })
        ];
      }
    }/bin/program ${compat}:${driver}:${stubs}:${greet}/lib
    contains "what it propagates" "$(< ${
      dropIn.cudaPackages.autoAddCudaCompatRunpath.override { autoFixElfFiles = dropIn.jq; }
    }/nix-support/propagated-build-inputs)" ${dropIn.jq}
  '';

  # Newer pkg-config files of CUDA name the driver's directory; the shrink step drops it.
  driverLinkOfTheLinker = check "driver-link-of-the-linker" (
    inEachMode (
      mode:
      let
        linked =
          args:
          built (
            mode
            // {
              dontPatchELF = false;
              build = ''
                mkdir -p $out/bin
                cp ${support.compiled}/bin/program $out/bin/program
                chmod u+w $out/bin/program
                echo 'int cuInit(unsigned); int greet(void); int main(void) { return cuInit(0) + greet(); }' > linked.c
                $CC -o $out/bin/linked linked.c -L${stubs} -lcuda -L${greet}/lib -lgreet \
                  -Wl,-rpath,/run/opengl-driver/lib:${greet}/lib
              '';
            }
            // args
          );
      in
      ''
        runPathIs ${linked { }}/bin/linked ${inNormalForm}
        runPathIs ${linked { nativeBuildInputs = [ dropIn.cudaRunpathHook ]; cudaCompat = ""; }}/bin/linked ${withoutCompat}
        runPathIs ${linked { nativeBuildInputs = [ ]; }}/bin/linked ${greet}/lib
      ''
    )
  );

  # Another list of GPUs, and what it changes: the hooks that need it, and nothing else.
  listOfGPUsRebuildsNothing =
    let
      sets =
        overlay:
        map (
          list:
          (pkgs.extend overlay).extend (
            _: prev: {
              _cuda = prev._cuda.extend (
                _: cuda: {
                  extensions = cuda.extensions ++ [
                    (_: _: {
                      flags = {
                        cudaCapabilities = list;
                        cudaForwardCompat = true;
                      };
                    })
                  ];
                }
              );
            }
          )
        ) [ [ "9.0" ] [ "7.5" ] ];
      paths = pkgs: {
        inherit (pkgs)
          autoPatchelfHook
          autoAddDriverRunpath
          cudaRunpathHook
          stubReplace
          addCudaCompatRunpath
          noRunpathAmbiguity
          ;
        inherit (pkgs.cudaPackages)
          autoAddCudaCompatRunpath
          removeStubsFromRunpathHook
          cuda_cudart
          cuda_nvml_dev
          libcublas
          cuda_compat
          thinCuda
          cudaCapabilitiesCheck
          ;
      };
      drv =
        package:
        let
          result = builtins.tryEval package.drvPath;
        in
        if result.success then result.value else "not here";
      rows =
        overlay:
        let
          both = map (pkgs: builtins.mapAttrs (_: drv) (paths pkgs)) (sets flake.overlays.${overlay});
        in
        lib.concatMapStrings (name: ''
          echo "| ${overlay} | ${name} | ${
            lib.concatMapStringsSep " | " (set: builtins.unsafeDiscardStringContext set.${name}) both
          } |"
          same "${name} with ${overlay} is the same" "${
            toString ((builtins.head both).${name} == (builtins.elemAt both 1).${name})
          }" "${
            toString (
              !(builtins.elem name [
                "thinCuda"
                "cudaCapabilitiesCheck"
              ])
            )
          }"
        '') (builtins.attrNames (builtins.head both));
      # What has nothing to do with CUDA evaluates no set.
      without = (pkgs.extend (_: _: { cudaPackages = throw "a CUDA set is evaluated"; })).extend flake.overlays.dropIn;
    in
    check "list-of-gpus" (
      rows "default"
      + rows "dropIn"
      + ''
        same "hooks that evaluate without a CUDA set" "${
          toString (
            builtins.filter
              (name: (builtins.tryEval without.${name}.drvPath).success)
              [
                "autoPatchelfHook"
                "autoAddDriverRunpath"
                "stubReplace"
                "noRunpathAmbiguity"
                "cuda-runpath"
              ]
          )
        }" "autoPatchelfHook autoAddDriverRunpath stubReplace noRunpathAmbiguity cuda-runpath"
      ''
    );

  # A remedy of a hook that is followed helps, with each overlay.
  remediesOfTheHooksHelp =
    let
      ambiguous =
        hooks: list: args:
        package (
          {
            pname = "remedy";
            nativeBuildInputs = [ hooks.noRunpathAmbiguity ];
            dontPatchELF = true;
            cudaCompat = "";
            build = installCompiled + ''
              for file in $out/bin/program $out/lib/libuse.so; do
                ${pkgs.patchelf}/bin/patchelf --set-rpath '${list}' $file
              done
            '';
          }
          // args
        );
      tried =
        hooks: list: name: more:
        ''
          contains "remedy" "$(< ${logOfFailure (ambiguous hooks list { })})" "add ${name} to nativeBuildInputs"
          contains "followed" "$(< ${
            logOfSuccess (
              ambiguous hooks list (
                {
                  nativeBuildInputs = [
                    hooks.noRunpathAmbiguity
                    hooks.${name}
                  ];
                }
                // more
              )
            )
          })" "exit status 0"
        '';
    in
    check "remedies" (
      lib.concatMapStrings
        (
          hooks:
          tried hooks "${driver}::${greet}/lib" "cudaRunpathHook" { }
          + tried hooks "${driver}:${stubs}:${greet}/lib" "stubReplace" { }
          + tried hooks "${driver}:${compat}:${greet}/lib" "addCudaCompatRunpath" { cudaCompat = compat; }
          # Followed already, with what nixpkgs has: its hook writes the entry itself.
          + ''
            contains "beside autoAddDriverRunpath" "$(< ${
              logOfSuccess (
                ambiguous hooks "${greet}/lib" {
                  nativeBuildInputs = [
                    hooks.autoAddDriverRunpath
                    hooks.noRunpathAmbiguity
                    hooks.cudaRunpathHook
                  ];
                }
              )
            })" "exit status 0"
          ''
        )
        [
          pkgs
          dropIn
        ]
    );

  driverLinkIsWithoutLib = check "driver-link-lib" (
    inEachMode (mode: ''
      contains "log" "$(< ${
        logOfFailure (built (mode // { driverLink = "/run/opengl-driver/lib"; }))
      })" "driverLink is '/run/opengl-driver/lib', which must be the directory without its last part, lib: '/run/opengl-driver'"
    '')
  );
}
