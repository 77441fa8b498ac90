# Where the hooks stand in nativeBuildInputs, how often, and by which way they come,
# must not matter; and they come after everything else that postFixup does.
support:
let
  inherit (support)
    allHooks
    check
    counting
    driver
    greet
    hookNames
    hooks
    inEachMode
    inNormalForm
    installCompiled
    keepCalls
    lib
    package
    pkgs
    stubs
    ;

  # Both ELF files of the compiled tree are in the normal form.
  bothNormal = package: ''
    runPathIs ${package}/bin/program ${inNormalForm}
    runPathIs ${package}/lib/libuse.so ${inNormalForm}
  '';

  ordered =
    order: args:
    package (
      {
        pname = "ordered";
        nativeBuildInputs = order;
        buildInputs = [ greet ];
        build = installCompiled;
      }
      // args
    );

  # A package that brings a hook to those that depend on it.
  bringer =
    how: hook:
    package {
      pname = "bringer";
      build = "mkdir $out";
      ${how} = [ hook ];
    };

  # The tools that a build with counting hooks runs, whether alone or together.
  callsAre = what: package: expected: ''
    calls=$(toolsIn ${package}/calls)
    same "calls, ${what}" "$calls" "${expected}"
  '';
  countingHooks = map (name: counting.${name}) hookNames;
  once = toString hookNames + " ";

  autoPatchelf =
    args: order: ordered order ({ autoPatchelfIgnoreMissingDeps = [ "libcuda.so.1" ]; } // args);
in
{
  # The tools run in the contract's order, whatever the list's. Each hook is the first once, and the last, and each two
  # of them stand in either order; what the program makes of all 24 orders is TestEveryOrder's, in pkg/cli/hook.
  everyOrder = check "every-order" (
    inEachMode (
      mode:
      lib.concatMapStrings
        (
          order:
          let
            package = ordered order (mode // keepCalls // support.whole);
          in
          bothNormal package + callsAre "order ${toString (map (h: h.name) order)}" package once
        )
        (
          [ (lib.reverseList countingHooks) ]
          ++ lib.optionals (mode == { }) (
            map (n: lib.drop n countingHooks ++ lib.take n countingHooks) [ 0 1 2 3 ]
          )
        )
    )
  );

  # Listed twice, propagated in each way, as a buildInput, for the build platform.
  eachHookOnceHoweverOftenItComes = check "each-hook-once" (
    inEachMode (
      mode:
      lib.concatMapStrings
        (
          way:
          callsAre "${way.name}, ${toString (builtins.attrNames mode)}" (ordered [ ] (
            mode
            // keepCalls
            // {
              pname = "often";
            }
            // way.value
          )) once
        )
        [
          {
            name = "each twice";
            value.nativeBuildInputs = countingHooks ++ countingHooks;
          }
          {
            name = "each twice, in the other order";
            value.nativeBuildInputs = countingHooks ++ lib.reverseList countingHooks;
          }
          {
            name = "listed, and propagated by native inputs";
            value.nativeBuildInputs =
              map (bringer "propagatedNativeBuildInputs") countingHooks ++ countingHooks;
          }
          {
            name = "listed, and propagated by inputs";
            value = {
              nativeBuildInputs = countingHooks;
              buildInputs = map (bringer "propagatedBuildInputs") countingHooks;
            };
          }
          {
            name = "propagated only";
            value.nativeBuildInputs = map (bringer "propagatedBuildInputs") countingHooks;
          }
          {
            name = "as buildInputs";
            value.buildInputs = countingHooks;
          }
          {
            name = "as depsBuildBuild and nativeBuildInputs";
            value = {
              depsBuildBuild = countingHooks;
              nativeBuildInputs = countingHooks;
            };
          }
          {
            name = "cudaRunpathHook";
            value.nativeBuildInputs = [ counting.cudaRunpathHook ];
          }
          {
            name = "cudaRunpathHook and the four";
            value.nativeBuildInputs = countingHooks ++ [ counting.cudaRunpathHook ];
          }
        ]
    )
  );

  # Hooks of two releases in one build are an error that names both.
  twoReleasesFailTheBuild =
    let
      both = order: ordered order { pname = "two-releases"; };
      # The counting tools call themselves 999.0.
      orders = [
        [
          hooks.autoAddDriverRunpath
          counting.stubReplace
        ]
        [
          counting.cudaRunpathHook
          hooks.noRunpathAmbiguity
        ]
      ];
    in
    check "two-releases" (
      lib.concatMapStrings (order: ''
        log=$(< ${support.logOfFailure (both order)})
        contains "log" "$log" "this build mixes hooks of different releases: "
        contains "log" "$log" "999.0 (${lib.getOutput "tools" support.countingTools})"
        contains "log" "$log" "${support.ours.cuda-runpath.version} (${lib.getOutput "tools" support.ours.cuda-runpath})"
      '') orders
      + ''
        lacks "log of one release" "$(< ${support.logOfSuccess (ordered countingHooks keepCalls)})" "different releases"
      ''
    );

  # What is sourced is the file, with what Nix knows in the lines that have @NAME@.
  aHookIsItsFile = check "a-hook-is-its-file" (
    lib.concatMapStrings
      ({ hook, file }: ''
        hook=${hook}/nix-support/setup-hook
        diff <(grep -v '@[a-zA-Z]*@' ${file}) <(grep -v -e '^ *source /' -e '^cudaRunpathBring ' $hook) ||
          complain "$hook is not ${file}"
        lacks "$hook" "$(grep -e '^ *source ' -e '^cudaRunpathBring ' $hook)" @
      '')
      (
        lib.mapAttrsToList (name: file: {
          inherit file;
          hook = (support.ours.hooksFor { }).${name};
        }) {
          stubReplace = ../tool.bash;
          addDriverRunpath = ../addDriverRunpath.bash;
          cudaRunpathHook = ../cudaRunpathHook.bash;
          autoPatchelfHook = ../autoPatchelfHook.bash;
        }
      )
  );

  # Not only the run paths: the files are the same, byte for byte.
  sameFilesInTheOtherOrder = pkgs.testers.testEqualContents {
    assertion = "hooks listed in the opposite order make the same files";
    actual = ordered (lib.reverseList allHooks) support.whole;
    expected = ordered allHooks support.whole;
  };

  # For whoever debugs a package in its shell; but none has the name by which nixpkgs' autoPatchelfHook calls its own.
  programsInPath = check "programs-in-path" (
    lib.concatMapStrings (
      hook:
      let
        built = package {
          pname = "with-programs";
          dontFixup = true;
          nativeBuildInputs = [ hook ];
          build = ''
            mkdir -p $out
            type -P stubReplace > $out/ours
            type -P auto-patchelf > $out/theirs || true
          '';
        };
      in
      ''
        same "stubReplace in PATH with ${hook.name}" "$(< ${built}/ours)" \
          ${lib.getOutput "tools" support.ours.cuda-runpath}/bin/stubReplace
        same "auto-patchelf in PATH with ${hook.name}" "$(< ${built}/theirs)" ""
        holds "${hook.name} is what makeSetupHook makes" test ! -e ${hook}/bin
      ''
    ) (builtins.attrValues hooks)
  );

  autoPatchelfBeforeAndAfter = check "auto-patchelf" (
    inEachMode (
      mode:
      bothNormal (autoPatchelf mode ([ pkgs.autoPatchelfHook ] ++ allHooks))
      + bothNormal (autoPatchelf mode (allHooks ++ [ pkgs.autoPatchelfHook ]))
      + bothNormal (
        autoPatchelf mode [
          hooks.addCudaCompatRunpath
          pkgs.autoPatchelfHook
          hooks.stubReplace
          hooks.autoAddDriverRunpath
        ]
      )
      # nixpkgs' functions are not replaced by ours of the same names.
      + bothNormal (
        autoPatchelf mode [
          pkgs.autoPatchelfHook
          hooks.cudaRunpathHook
        ]
      )
      + bothNormal (
        autoPatchelf mode [
          (bringer "propagatedBuildInputs" pkgs.autoPatchelfHook)
          hooks.cudaRunpathHook
        ]
      )
    )
  );

  # A package's postFixup, its own hooks appended at any moment before postFixup runs,
  # and hooks that are sourced later than ours: what they add, ours put in order.
  afterWhateverPostFixupDoes =
    let
      disorder = ''patchelf --set-rpath ${stubs}:${greet}/lib:${driver} "$out/lib/libuse.so"'';
      late = support.hookOf ''
        lateToTheParty() { ${disorder}; }
        postFixupHooks+=(lateToTheParty)
      '';
      fromPreFixup = support.hookOf ''
        appendLater() { postFixupHooks+=(lateToTheParty); }
        lateToTheParty() { ${disorder}; }
        preFixupHooks+=(appendLater)
      '';
      fromFixupOutput = support.hookOf ''
        appendLater() { postFixupHooks+=(lateToTheParty); }
        lateToTheParty() { ${disorder}; }
        fixupOutputHooks+=(appendLater)
      '';
      appends = ''
        lateToTheParty() { ${disorder}; }
        postFixupHooks+=(lateToTheParty)
      '';
      variants = {
        postFixup.postFixup = disorder;
        hookListedLater.nativeBuildInputs = allHooks ++ [ late ];
        hookAppendsInPreFixup.nativeBuildInputs = allHooks ++ [ fromPreFixup ];
        hookAppendsInFixupOutput.nativeBuildInputs = allHooks ++ [ fromFixupOutput ];
        installPhaseAppends.postInstall = appends;
        preFixupAppends.preFixup = appends;
        # Phases of its own, with nothing between them that we could hang on to.
        phasesOfItsOwn = {
          phases = [
            "installPhase"
            "fixupPhase"
          ];
          postInstall = appends;
        };
        # No preFixup, no fixupOutput.
        fixupPhaseOverridden = {
          fixupPhase = "runHook postFixup";
          postFixup = disorder;
        };
        fixupPhaseOverriddenHookListedLater = {
          fixupPhase = "runHook postFixup";
          nativeBuildInputs = allHooks ++ [ late ];
        };
        # No fixupOutput.
        fixupPhaseOverriddenInstallPhaseAppends = {
          fixupPhase = "runHook preFixup; runHook postFixup";
          postInstall = appends;
        };
      };
    in
    check "after-whatever-post-fixup-does" (
      lib.concatMapStrings (
        name:
        inEachMode (
          mode:
          let
            built = ordered allHooks (
              mode
              // {
                pname = name;
                nativeBuildInputs = allHooks ++ [ pkgs.patchelf ];
              }
              // variants.${name}
              // lib.optionalAttrs (variants.${name} ? nativeBuildInputs) {
                nativeBuildInputs = variants.${name}.nativeBuildInputs ++ [ pkgs.patchelf ];
              }
            );
          in
          bothNormal built
        )
      ) (builtins.attrNames variants)
    );
}
