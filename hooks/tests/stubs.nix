# Stubs: gone from the run path whichever way they came, without a trace in the
# output, and there for the check phases of a package that asks for them.
support:
let
  inherit (support)
    allHooks
    check
    counting
    driver
    greet
    hooks
    installCompiled
    lib
    libcuda
    logOfFailure
    logOfSuccess
    package
    pkgs
    stubs
    unversionedStubs
    ;

  # A library that needs the driver and nothing else, linked against these stubs.
  leaf =
    directory: args:
    package (
      {
        pname = "leaf";
        nativeBuildInputs = [ hooks.stubReplace ];
        build = ''
          mkdir -p $out/lib
          echo 'int cuInit(unsigned); int use(void) { return cuInit(0); }' > use.c
          $CC -shared -fPIC -o $out/lib/libuse.so use.c -L${directory} -lcuda -Wl,-rpath,${directory}
        '';
      }
      // args
    );

  # The hash that Nix looks for in the output's bytes.
  hashOf =
    directory:
    builtins.substring 0 32 (
      baseNameOf (builtins.unsafeDiscardStringContext (dirOf (dirOf directory)))
    );
  noTraceOf = directory: package: ''
    # The name is unknown to this derivation on purpose: mentioning it would be a trace.
    same "files with the stub's hash" "$(grep -rlF ${hashOf directory} ${package} || true)" ""
    same "references" "$(sed -n 's/^references=//p' ${referencesOf package})" ""
  '';
  # What Nix itself found of the stub packages in the package.
  referencesOf =
    package:
    pkgs.runCommand "references"
      {
        exportReferencesGraph = [
          "graph"
          package
        ];
      }
      ''
        echo "references=$(grep -o '[^/]*cuda_cudart[^ ]*' graph | sort -u | tr '\n' ' ')" > $out
      '';

  # A Python package whose extension needs libcuda.so.1, as llama-cpp-python does: its
  # import loads the extension.
  importing =
    args:
    package (
      {
        pname = "importing";
        nativeBuildInputs = [
          hooks.stubReplace
          hooks.autoAddDriverRunpath
          pkgs.python3Packages.pythonImportsCheckHook
          pkgs.python3
        ];
        build = ''
          site=$out/${pkgs.python3.sitePackages}/llamalike
          mkdir -p $site
          echo 'int cuInit(unsigned); int use(void) { return cuInit(0); }' > use.c
          $CC -shared -fPIC -o $site/_ext.so use.c -L${stubs} -lcuda -Wl,-rpath,${stubs}
          cat > $site/__init__.py <<'PYTHON'
          import ctypes, os
          assert ctypes.CDLL(os.path.join(os.path.dirname(__file__), "_ext.so")).use() == 34
          PYTHON
          sed -i 's/^ *//' $site/__init__.py
        '';
        pythonImportsCheck = [ "llamalike" ];
        PYTHONDONTWRITEBYTECODE = "1";
      }
      // args
    );

  # A program that is run in installCheckPhase; the phase is nixpkgs' with hooks, a
  # function of the package, or a variable.
  runs =
    args:
    package (
      {
        pname = "runs";
        nativeBuildInputs = [ hooks.cudaRunpathHook ];
        build = installCompiled;
        stubReplaceForChecks = true;
        doInstallCheck = true;
        installCheckPhase = ''
          runHook preInstallCheck
          $out/bin/program
          echo "in the check phase: $LD_LIBRARY_PATH"
          [[ :$LD_LIBRARY_PATH == *":$NIX_BUILD_TOP/"* ]]
          # What Triton does there: it links against the driver's library, by its name or by -lcuda.
          echo 'int cuInit(unsigned); int main(void) { return cuInit(0) == 34 ? 0 : 1; }' > linked.c
          $CC -o linked linked.c -lcuda && ./linked
          $CC -o linked linked.c -L"$TRITON_LIBCUDA_PATH" -l:libcuda.so.1 && ./linked
          # For the linker alone.
          [[ ! -e $TRITON_LIBCUDA_PATH/libcuda.so ]]
          runHook postInstallCheck
        '';
        postPhases = "afterwardsPhase";
        afterwardsPhase = ''
          echo "afterwards: ''${LD_LIBRARY_PATH-unset}"
          if $out/bin/program; then exit 1; fi
        '';
      }
      // args
    );

  # A driver that says 0, where the stub says 34.
  driverPackage = package {
    pname = "driver";
    dontFixup = true;
    build = ''
      mkdir -p $out/lib
      ${libcuda 0 "$out/lib/libcuda.so.1"}
    '';
  };
in
{
  # patchelf's shrink step drops a directory that has libcuda.so but not libcuda.so.1;
  # the driver link is asked for all the same.
  stubDroppedByTheShrinkStep = check "shrunk-stub" (
    lib.concatMapStrings
      (args: ''
        runPathIs ${leaf unversionedStubs args}/lib/libuse.so ${driver}
        runPathIs ${leaf stubs args}/lib/libuse.so ${driver}
      '')
      [
        { }
        { dontPatchELF = true; }
        { dontStrip = true; }
        { __structuredAttrs = true; }
      ]
  );

  stubLayouts = check "stub-layouts" (
    lib.concatMapStrings
      (directory: ''
        runPathIs ${
          package {
            pname = "layout";
            nativeBuildInputs = [
              hooks.stubReplace
              pkgs.patchelf
            ];
            dontPatchELF = true;
            build = installCompiled;
            postFixup = "patchelf --set-rpath ${directory}:${greet}/lib $out/bin/program";
          }
        }/bin/program ${driver}:${greet}/lib
      '')
      [
        "${builtins.storeDir}/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-cuda_cudart-12.2.140-stubs/lib"
        "${builtins.storeDir}/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-cuda12.9-cuda_cudart-12.9.79-stubs/lib/stubs"
        "${builtins.storeDir}/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-cudatoolkit/targets/x86_64-linux/lib/stubs"
        "/usr/local/cuda/lib64/stubs"
        # A store that is called otherwise.
        "/opt/pkgs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-cuda12.9-cuda_cudart-12.9.79-stubs/lib"
      ]
    # Where it is, each build says, also of references that were cut.
    + ''
      runPathIs ${
        package {
          pname = "layout-of-another-store";
          nativeBuildInputs = allHooks ++ [ pkgs.patchelf ];
          build = installCompiled;
          dontPatchELF = true;
          cudaCompat = "";
          postFixup = ''
            patchelf --set-rpath /opt/pkgs/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-cuda_cudart-12.9.79-stubs/lib:${greet}/lib $out/bin/program
            export NIX_STORE=/opt/pkgs
          '';
        }
      }/bin/program ${driver}:${greet}/lib
    ''
  );

  noTraceOfTheStubIsLeft = check "no-trace" (
    noTraceOf stubs (leaf stubs { })
    + noTraceOf stubs (leaf stubs { dontPatchELF = true; })
    + noTraceOf stubs (importing {
      stubReplaceForChecks = true;
    })
    + ''
      # The control: a build without the hook has the trace, so the search can find one.
      control=${leaf stubs { nativeBuildInputs = [ ]; }}
      same "files with the stub's hash, without the hook" \
        "$(grep -rlF ${hashOf stubs} $control)" $control/lib/libuse.so
      contains "references, without the hook" "$(< ${
        referencesOf (leaf stubs { nativeBuildInputs = [ ]; })
      })" cuda_cudart
    ''
  );

  stubsForChecks = check "stubs-for-checks" (
    lib.concatMapStrings
      (
        mode:
        let
          log = logOfSuccess (runs mode);
          imported = importing (mode // { stubReplaceForChecks = true; });
        in
        ''
          runPathIs ${imported}/${pkgs.python3.sitePackages}/llamalike/_ext.so ${driver}
          contains "log of the import" "$(< ${
            logOfSuccess (importing (mode // { stubReplaceForChecks = true; }))
          })" "pythonImportsCheckPhase: offering the stubs"
          contains "log" "$(< ${log})" "installCheckPhase: offering the stubs"
          contains "log" "$(< ${log})" "afterwards: unset"
          same "left in the output" "$(find ${runs mode} ${imported} -name 'libcuda*')" ""
        ''
      )
      [
        { }
        {
          strictDeps = true;
          __structuredAttrs = true;
          stubReplaceFlags = [ "--verbose" ];
        }
      ]
    + ''
      contains "log with unversioned stubs" "$(< ${
        logOfSuccess (runs {
          build = ''
            mkdir -p $out/bin
            echo 'int cuInit(unsigned); int main(void) { return cuInit(0) == 34 ? 0 : 1; }' > main.c
            $CC -o $out/bin/program main.c -L${unversionedStubs} -lcuda -Wl,-rpath,${unversionedStubs}
          '';
        })
      })" "installCheckPhase: offering the stubs"
    ''
    # Nor is anything said to be offered where nothing was found.
    + ''
      log=$(< ${
        logOfSuccess (runs {
          pname = "runs-without-stubs";
          nativeBuildInputs = [
            hooks.cudaRunpathHook
            pkgs.patchelf
          ];
          build = installCompiled + ''
            rm -r $out/lib
            patchelf --set-rpath ${greet}/lib $out/bin/program
          '';
          installCheckPhase = ''echo "in the check phase: ''${LD_LIBRARY_PATH-unset}"'';
          afterwardsPhase = ":";
        })
      })
      contains "log" "$log" "no stubs to offer"
      contains "log" "$log" "in the check phase: unset"
    ''
    # Nothing is offered where the driver is.
    + ''
      contains "log with a driver" "$(< ${
        logOfSuccess (runs {
          pname = "runs-with-driver";
          driverLink = driverPackage;
          nativeBuildInputs = [ (hooks.cudaRunpathHook.override { cuda_compat = null; }) ];
          installCheckPhase = ''
            echo "in the check phase: ''${LD_LIBRARY_PATH-unset}"
            if $out/bin/program; then exit 1; fi
          '';
        })
      })" "no stubs needed"
    ''
    # A package's own directory for the check phases comes before the stubs.
    + ''
      contains "log" "$(< ${
        logOfSuccess (runs {
          preFixup = "export LD_LIBRARY_PATH=/some/where";
          afterwardsPhase = ''echo "afterwards: $LD_LIBRARY_PATH"'';
        })
      })" "in the check phase: /some/where:"
    ''
    # Without it the import fails, so what is above means something.
    + ''
      contains "log of a build without stubReplaceForChecks" "$(< ${logOfFailure (importing { })})" \
        "libcuda.so.1: cannot open shared object file"
    ''
  );

  # One process for all that edit, one for the check, one more for the stubs.
  processes =
    let
      calls =
        args:
        runs (
          {
            nativeBuildInputs = [ counting.cudaRunpathHook ];
            installCheckPhase = "cp $NIX_BUILD_TOP/calls $out/calls";
            afterwardsPhase = ":";
          }
          // args
        );
      without = {
        stubReplaceForChecks = false;
      };
      empty = {
        build = ":";
        installCheckPhase = "mkdir $out; touch $NIX_BUILD_TOP/calls; cp $NIX_BUILD_TOP/calls $out/calls";
      };
    in
    check "processes" ''
      same "with stubs for checks" "$(wc -l < ${calls { }}/calls)" 3
      same "without" "$(wc -l < ${calls without}/calls)" 2
      same "without outputs" "$(wc -l < ${calls (without // empty)}/calls)" 0
    '';
}
