# A tool that fails, fails the build, and its message is in the log.
support:
let
  inherit (support)
    check
    greet
    hooks
    installCompiled
    lib
    logOfFailure
    logOfSuccess
    package
    pkgs
    ;

  # libgreet.so.1 again, in another directory: the order of the run path decides.
  otherGreet = package {
    pname = "other-greet";
    dontFixup = true;
    build = ''
      mkdir -p $out/lib
      echo 'int greet(void) { return 8; }' > greet.c
      $CC -shared -fPIC -Wl,-soname,libgreet.so.1 -o $out/lib/libgreet.so.1 greet.c
    '';
  };
  ambiguous =
    args:
    package (
      {
        pname = "ambiguous";
        nativeBuildInputs = [
          hooks.noRunpathAmbiguity
          pkgs.patchelf
        ];
        build = installCompiled;
        postFixup = ''
          for file in $out/bin/program $out/lib/libuse.so; do
            patchelf --set-rpath /run/opengl-driver/lib:${greet}/lib:${otherGreet}/lib $file
          done
        '';
      }
      // args
    );

  # An ELF file that ends too early.
  broken =
    args:
    package (
      {
        pname = "broken";
        nativeBuildInputs = [ hooks.autoAddDriverRunpath ];
        dontStrip = true;
        dontPatchELF = true;
        build = installCompiled + ''
          head -c 200 $out/lib/libuse.so > $out/lib/short.so
        '';
      }
      // args
    );
in
{
  ambiguousRunPathFailsTheBuild = check "ambiguous" (
    lib.concatMapStrings
      (mode: ''
        log=$(< ${logOfFailure (ambiguous mode)})
        contains "log" "$log" "libgreet.so.1"
        contains "log" "$log" "${greet}/lib"
        contains "log" "$log" "${otherGreet}/lib"
        contains "log" "$log" "/bin/program"
        contains "log" "$log" "/lib/libuse.so"
        contains "log" "$log" "noRunpathAmbiguity failed with exit status 1"
        contains "log" "$log" "exit status 1"
      '')
      [
        { }
        { __structuredAttrs = true; }
        { strictDeps = true; }
      ]
    + ''
      log=$(< ${
        logOfSuccess (ambiguous {
          noRunpathAmbiguityIgnore = "libgreet.so.1";
        })
      })
      contains "log with the soname ignored" "$log" "exit status 0"
      log=$(< ${
        logOfSuccess (ambiguous {
          dontNoRunpathAmbiguity = true;
        })
      })
      contains "log with the check switched off" "$log" "exit status 0"
    ''
  );

  # Also where errexit does not work: in a condition, in a pipe, and without the log
  # that nixpkgs' functions write to.
  failureIsNeverSwallowed = check "failure" (
    lib.concatMapStrings
      (args: ''
        log=$(< ${logOfFailure (broken args)})
        contains "log" "$log" "short.so: "
        contains "log" "$log" "autoAddDriverRunpath failed with exit status 1"
        lacks "log" "$log" "not reached"
      '')
      [
        { }
        { __structuredAttrs = true; }
        {
          fixupPhase = "if runHook postFixup; then echo not reached; fi; echo not reached";
        }
        { fixupPhase = "runHook postFixup || true; echo not reached"; }
        { fixupPhase = "set +e; runHook postFixup; echo not reached"; }
        { preFixup = "unset NIX_LOG_FD"; }
        { preFixup = "unset -f nixLog nixErrorLog"; }
      ]
  );

  # In nixpkgs' way where there is one.
  logsByNixpkgsFunctions = check "log-functions" ''
    log=$(< ${
      logOfFailure (broken {
        preFixup = ''
          nixLog() { echo "nixLog says: $1"; }
          nixErrorLog() { echo "nixErrorLog says: $1"; }
        '';
      })
    })
    contains "log" "$log" "nixLog says: autoAddDriverRunpath: ${builtins.storeDir}/"
    contains "log" "$log" "nixErrorLog says: autoAddDriverRunpath failed with exit status 1"
  '';

  wrongSettingsFailTheBuild = check "wrong-settings" (
    lib.concatMapStrings
      (args: ''
        log=$(< ${logOfFailure (broken (args // { build = installCompiled; }))})
        contains "log" "$log" "autoAddDriverRunpath failed with exit status 2"
      '')
      [
        { driverLinkPosition = "middle"; }
        { autoAddDriverRunpathFlags = "--no-such-flag"; }
      ]
    + ''
      log=$(< ${
        logOfFailure (broken {
          build = installCompiled;
          __structuredAttrs = true;
          autoAddDriverRunpathFlags.when = "needed";
        })
      })
      contains "log" "$log" "autoAddDriverRunpathFlags must be a string or a list"
    ''
  );
}
