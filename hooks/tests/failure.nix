# A tool that fails, fails the build, and its message is in the log.
support:
let
  inherit (support)
    check
    counting
    greet
    hooks
    inEachMode
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
  bringsOther = package {
    pname = "brings-other-greet";
    propagatedBuildInputs = [ otherGreet ];
    build = "mkdir -p $out";
  };
  ambiguous =
    args:
    package (
      {
        pname = "ambiguous";
        buildInputs = [
          greet
          bringsOther
        ];
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

  # An ELF file that ends too early, where that matters.
  broken =
    args:
    package (
      {
        pname = "broken";
        nativeBuildInputs = [ hooks.autoAddDriverRunpath ];
        dontStrip = true;
        dontPatchELF = true;
        cudaRunpathStrict = true;
        build = installCompiled + ''
          head -c 200 $out/lib/libuse.so > $out/lib/short.so
        '';
      }
      // args
    );

  # Files as compilers, debuggers and fuzzers have them for test data.
  testData =
    args:
    package (
      {
        pname = "with-test-data";
        nativeBuildInputs = [ hooks.cudaRunpathHook ];
        dontStrip = true;
        dontPatchELF = true;
        build = installCompiled + ''
          mkdir -p $out/testdata
          cd $out/testdata
          whole=$out/lib/libuse.so
          n=10
          # overwrite OFFSET BYTES…: a copy with these bytes, octal, at that place.
          overwrite() {
            local at=$1
            shift
            n=$((n + 1))
            cp $whole $n.so
            printf "$(printf '\\%s' "$@")" | dd of=$n.so bs=1 seek=$at conv=notrunc status=none
          }
          for length in 4 5 16 20 40 63 64 65 200 1000; do
            n=$((n + 1))
            head -c $length $whole > $n.so
          done
          printf '\177ELF is how this text begins\n' > text
          printf '\177ELF' > magic
          head -c 64 $whole > zeros; head -c 4000 /dev/zero >> zeros
          overwrite 4 0                           # no class
          overwrite 4 11
          overwrite 5 7                           # no byte order
          overwrite 32 377 377 377 377 377 377 377 177  # program headers far outside
          overwrite 32 1 0 0 0 0 0 0 0            # over the ELF header
          overwrite 54 1 0                        # of a wrong size
          overwrite 56 377 377                    # far too many
          cp $whole unreadable.so
          chmod 0 unreadable.so
        '';
      }
      // args
    );
in
{
  # The build goes on, says which files it skipped and why, and edits the others.
  malformedFilesAreWarnings = check "malformed" (
    inEachMode (mode: ''
      log=$(< ${logOfSuccess (testData mode)})
      warned=$(grep -c '^[^ ]*/testdata/[^ ]*: warning: skipped: ' <<< "$log" || true)
      # The editors say it once, the check again.
      holds "$warned warnings" test "$warned" -ge 38
      contains "log" "$log" "/testdata/text: warning: skipped: "
      contains "log" "$log" "/testdata/unreadable.so: warning: skipped: "
      contains "log" "$log" "(offset 0x"
      runPathIs ${testData mode}/lib/libuse.so ${support.inNormalForm}
      same "a malformed file's size" "$(wc -c < ${testData mode}/testdata/19.so)" 200
    '')
    + ''
      log=$(< ${logOfFailure (testData { cudaRunpathStrict = true; })})
      contains "log of the strict build" "$log" "/testdata/text: "
      contains "log of the strict build" "$log" "failed with exit status 1"
    ''
  );

  # What is called by hand goes on too, as nixpkgs' function does.
  missingFilesAreWarnings =
    let
      calls =
        args:
        package (
          {
            pname = "missing";
            nativeBuildInputs = [ hooks.autoAddDriverRunpath ];
            dontCheckForBrokenSymlinks = true;
            dontStrip = true;
            dontPatchELF = true;
            build = installCompiled + ''
              ln -s nowhere $out/lib/dangling.so
              head -c 200 $out/lib/libuse.so > $out/lib/short.so
            '';
            postFixup = ''
              addDriverRunpath $out/missing
              addDriverRunpath $out/lib/*.so
              echo went on
            '';
          }
          // args
        );
    in
    check "missing" ''
      log=$(< ${logOfSuccess (calls { })})
      contains "log" "$log" "/missing does not exist"
      contains "log" "$log" "/lib/dangling.so does not exist"
      contains "log" "$log" "/lib/short.so: warning: skipped: "
      contains "log" "$log" "went on"
      log=$(< ${logOfFailure (calls { cudaRunpathStrict = true; })})
      contains "log of the strict build" "$log" "/missing does not exist"
      lacks "log of the strict build" "$log" "went on"
    '';

  ambiguousRunPathFailsTheBuild = check "ambiguous" (
    inEachMode (mode: ''
      log=$(< ${logOfFailure (ambiguous mode)})
      contains "log" "$log" "libgreet.so.1"
      contains "log" "$log" "${greet}/lib"
      contains "log" "$log" "${otherGreet}/lib"
      contains "log" "$log" "/bin/program"
      contains "log" "$log" "/lib/libuse.so"
      contains "log" "$log" "noRunpathAmbiguity failed with exit status 1"
      # What its author can write, and no command line; that it helps is shown below.
      contains "log" "$log" 'set noRunpathAmbiguityIgnore = [ "libgreet.so.1" ];'
      lacks "log" "$log" "--ignore"
      lacks "log" "$log" "runpath edit"
      # What brought the entries, as the variables of setup.sh show it.
      contains "log" "$log" "greet-1.0 is in buildInputs; entry 3: "
      contains "log" "$log" "other-greet-1.0 is propagated by brings-other-greet-1.0, which is in buildInputs. fix: "
    '')
    + ''
      log=$(< ${
        logOfSuccess (ambiguous {
          noRunpathAmbiguityIgnore = [ "libgreet.so.1" ];
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
        # In a shell of its own, whose status nobody looks at.
        { fixupPhase = "(runHook postFixup) || true"; }
        { fixupPhase = "set +o pipefail; runHook postFixup | cat"; }
      ]
    # The program is killed, as where the machine has no memory left.
    + lib.concatMapStrings
      (killedAt: ''
        log=$(< ${
          logOfFailure (package {
            pname = "killed";
            nativeBuildInputs = [ counting.cudaRunpathHook ];
            build = installCompiled;
            inherit killedAt;
          })
        })
        contains "log" "$log" "/bin/runpath hook ${killedAt} ended without a status"
      '')
      [
        "--settings"
        "before"
        "fixup"
        "end"
      ]
  );

  # What the shim keeps is its own, whatever attribute of a package has the name.
  attributesDoNotReachTheShim =
    let
      named =
        value:
        lib.genAttrs [
          "cudaRunpathGiven"
          "cudaRunpathSettings"
          "cudaRunpathProgram"
          "cudaRunpathStubs"
          "cudaRunpathAudited"
        ] (_: value);
    in
    check "attributes" (
      lib.concatMapStrings
        (args: ''
          runPathIs ${
            package (
              {
                pname = "attributes";
                nativeBuildInputs = [ hooks.cudaRunpathHook ];
                build = installCompiled;
              }
              // args
            )
          }/bin/program ${support.inNormalForm}
        '')
        (
          [ { env = named "x"; } ]
          ++ map (value: { __structuredAttrs = true; } // named value) [
            "x"
            true
            [ "x" ]
            { x = "y"; }
          ]
        )
    );

  # Functions that are named as builtins: nothing is lost without a word.
  lostStateFailsTheBuild = check "lost-state" (
    lib.concatMapStrings
      (preFixup: ''
        contains "log" "$(< ${
          logOfFailure (package {
            pname = "lost";
            nativeBuildInputs = [ hooks.cudaRunpathHook ];
            build = installCompiled;
            inherit preFixup;
          })
        })" "what the hooks of this build brought is lost"
      '')
      [
        "cudaRunpathGiven=()"
        "unset cudaRunpathGiven"
      ]
    + lib.concatMapStrings
      (name: ''
        runPathIs ${
          package {
            pname = "named-${name}";
            nativeBuildInputs = [ hooks.cudaRunpathHook ];
            build = installCompiled;
            preFixup = "${name}() { :; }";
            postFixup = "unset -f ${name}";
          }
        }/bin/program ${support.inNormalForm}
        contains "log" "$(< ${logOfFailure (broken { postFixup = "${name}() { :; }"; })})" \
          "autoAddDriverRunpath failed with exit status 1"
      '')
      [
        # Of others, read and return among them, setup.sh itself dies, or never ends.
        "mapfile"
        "exit"
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
