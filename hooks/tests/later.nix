# What phases after fixup do to what the hooks left: a failure where it no longer holds, none
# for a change alone.
support:
let
  inherit (support)
    allHooks
    check
    driver
    greet
    hooks
    inEachMode
    installCompiled
    lib
    logOfFailure
    logOfSuccess
    package
    pkgs
    stubs
    wave
    ;

  changed =
    args:
    package (
      {
        pname = "changed-later";
        nativeBuildInputs = allHooks ++ [ pkgs.patchelf ];
        build = installCompiled;
      }
      // args
    );
  # torch-bin's shape.
  inPostPhases = command: {
    postPhases = [ "postPatchelfPhase" ];
    postPatchelfPhase = command;
  };
  inDistPhase = command: {
    doDist = true;
    distPhase = command;
  };
  undone = "what a phase after fixup (postPhases, distPhase, a check phase) did undoes what the hooks did";
  failsWith = args: message: ''
    log=$(< ${logOfFailure (changed args)})
    contains "log" "$log" ${lib.escapeShellArg message}
    contains "log" "$log" "${undone}"
  '';
  succeeds = args: ''
    lacks "log" "$(< ${logOfSuccess (changed args)})" "a phase after fixup"
  '';
  off = {
    dontStubReplace = true;
    dontAutoAddDriverRunpath = true;
    dontAddCudaCompatRunpath = true;
    dontNoRunpathAmbiguity = true;
  };
  toStubs = "patchelf --set-rpath ${stubs} $out/bin/program";
in
{
  laterPhasesUndoNothing = check "later-phases" (
    inEachMode (
      mode:
      failsWith (mode // inPostPhases toStubs) "bin/program: a phase after fixup changed it: stubReplace, autoAddDriverRunpath, addCudaCompatRunpath would make its run path"
      + failsWith (mode // inDistPhase "patchelf --remove-rpath $out/lib/libuse.so") "lib/libuse.so: a phase after fixup changed it"
      + failsWith (
        mode
        // inPostPhases "patchelf --set-rpath ${driver}::${greet}/lib $out/bin/program"
        // {
          nativeBuildInputs = [
            hooks.noRunpathAmbiguity
            pkgs.patchelf
          ];
          build = installCompiled + ''
            for file in $out/bin/program $out/lib/libuse.so; do
              ${pkgs.patchelf}/bin/patchelf --set-rpath ${driver}:${greet}/lib $file
            done
          '';
        }
      ) "noRunpathAmbiguity finds this because a phase after fixup changed files"
      # What is moved in keeps its own times.
      + failsWith (
        mode
        // inPostPhases "mv stage $out/stage"
        // {
          build = installCompiled + "cp -r $out/lib stage; chmod -R u+w stage";
        }
      ) "stage/libuse.so: a phase after fixup changed it"
      + failsWith (
        mode
        // inPostPhases "rm -r $out/lib; mv stage $out/lib"
        // {
          build = installCompiled + "cp -r $out/lib stage; chmod -R u+w stage";
        }
      ) "lib/libuse.so: a phase after fixup changed it"
      # nixpkgs' torch adds a library there; and an entry that is there once more leads nowhere else.
      + succeeds (mode // inPostPhases "patchelf --add-rpath ${wave}/lib:${driver} $out/bin/program")
      + succeeds (mode // inPostPhases "chmod -R u+w $out; touch $out/bin/program; echo text > $out/text")
      + succeeds (mode // inPostPhases toStubs // off)
    )
    # A trap of the package's own takes the place of stdenv's, which runs no exit hooks then.
    + succeeds (inPostPhases "${toStubs}; trap : EXIT")
    # Also where postFixup's hooks run in a shell of their own, of which this one sees nothing.
    + ''
      lacks "log" "$(< ${
        logOfSuccess (changed { fixupPhase = "runHook preFixup; runHook postFixup | cat"; })
      })" "no postFixup hooks ran"
    ''
  );
}
