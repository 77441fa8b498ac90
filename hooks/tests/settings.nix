# What a package can say: off switches, settings as strings and as lists, and that
# every tool hears the same.
support:
let
  inherit (support)
    allHooks
    check
    compat
    compatPackage
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
    logOfSuccess
    package
    stubs
    withoutCompat
    ;

  countingHooks = map (name: counting.${name}) hookNames;
  with' =
    args:
    package (
      {
        pname = "with-settings";
        nativeBuildInputs = allHooks;
        dontPatchELF = true;
        build = installCompiled;
      }
      // args
    );

  counted =
    args:
    with' (
      keepCalls
      // {
        nativeBuildInputs = countingHooks;
      }
      // args
    );

  # Each switch, its tool, and the run path that is left without it.
  switches = [
    {
      switch = "dontStubReplace";
      tool = "stubReplace";
      # A stub in a run path is what noRunpathAmbiguity fails for.
      also = "noRunpathAmbiguity";
      list = "${compat}:${driver}:${stubs}:${greet}/lib";
    }
    {
      switch = "dontAutoAddDriverRunpath";
      tool = "autoAddDriverRunpath";
      # stubReplace asks for the driver link too, in place of the stubs.
      list = inNormalForm;
    }
    {
      switch = "dontUseAutoAddDriverRunpath";
      tool = "autoAddDriverRunpath";
      list = inNormalForm;
    }
    {
      switch = "dontAddCudaCompatRunpath";
      tool = "addCudaCompatRunpath";
      list = withoutCompat;
    }
    {
      switch = "dontNoRunpathAmbiguity";
      tool = "noRunpathAmbiguity";
      list = inNormalForm;
    }
  ];

  # One walk for all that edit.
  together = "runpath normalize --tool stubReplace --tool autoAddDriverRunpath --tool addCudaCompatRunpath";

  # The arguments that each tool gets, without the number of jobs and the outputs.
  argumentsOf = package: ''
    sed -E -e 's/ --nix( --hook [^-]*[^ -])*//' -e 's/ --jobs [0-9]+ --malformed warn( --force-runpath)?( --in-place)?//' -e 's/ -- .*//' < ${package}/calls
  '';
  callsOf =
    what: args: expected:
    inEachMode (mode: ''
      same "arguments, ${what}" "$(${
        argumentsOf (counted (args // mode))
      })" ${lib.escapeShellArg expected}
    '');
in
{
  offSwitches = check "off-switches" (
    lib.concatMapStrings (
      {
        switch,
        tool,
        list,
        also ? tool,
      }:
      let
        args = {
          pname = switch;
          ${switch} = true;
        }
        // lib.optionalAttrs (also != tool) { dontNoRunpathAmbiguity = true; };
        package = counted args;
      in
      ''
        runPathIs ${package}/bin/program ${list}
        same "calls, ${switch}" "$(toolsIn ${package}/calls)" \
          "${lib.concatMapStrings (n: "${n} ") (lib.remove also (lib.remove tool hookNames))}"
        contains "log" "$(< ${logOfSuccess (with' args)})" "${tool}: switched off by ${switch}"
      ''
    ) switches
    # false is not a switch.
    + inEachMode (mode: ''
      runPathIs ${
        with' (
          mode
          // {
            dontStubReplace = false;
            dontAddCudaCompatRunpath = false;
          }
        )
      }/bin/program ${inNormalForm}
    '')
  );

  # dontFixup, phases without fixup, and a fixupPhase that runs no hooks: nothing is
  # edited, and the log says so.
  noFixupIsSaid = check "no-fixup" (
    lib.concatMapStrings
      (
        args:
        let
          package = with' ({ pname = "no-fixup"; } // args);
        in
        ''
          runPathIs ${package}/bin/program ${stubs}:${greet}/lib
          same "times that the log says so" \
            "$(grep -c 'no postFixup hooks ran in this build' ${logOfSuccess package})" 1
        ''
      )
      [
        { dontFixup = true; }
        { phases = [ "installPhase" ]; }
        { fixupPhase = "echo nothing to fix"; }
        {
          dontFixup = true;
          __structuredAttrs = true;
        }
      ]
    + ''
      lacks "log of a package with fixup" "$(< ${logOfSuccess (with' { })})" "no postFixup hooks ran"
      lacks "log in nix-shell" "$(< ${
        logOfSuccess (with' {
          dontFixup = true;
          preInstall = "IN_NIX_SHELL=impure";
        })
      })" "no postFixup hooks ran"
    ''
  );

  driverLinkAndPosition = check "driver-link" (
    inEachMode (mode: ''
      runPathIs ${
        with' (
          mode
          // {
            driverLink = "/opt/gpu/";
            driverLinkPosition = "last";
            cudaCompat = "${compat}/../compat";
          }
        )
      }/bin/program ${compat}/../compat:${greet}/lib:/opt/gpu/lib
      runPathIs ${with' (mode // { cudaCompat = ""; })}/bin/program ${withoutCompat}
    '')
    # The ordinary link depends on the file's machine, so the hooks do not name it.
    + lib.optionalString support.pkgs.stdenv.hostPlatform.isx86_64 ''
      runPathIs ${
        with' {
          cudaCompat = "";
          build = ''
            mkdir $out
            echo 'int f(void) { return 1; }' > f.c
            $CC -m32 -nostdlib -shared -fPIC -o $out/lib32.so f.c
          '';
        }
      }/lib32.so /run/opengl-driver-32/lib
    ''
  );

  # Each setting, in each way in which a package may set it. The check's output is the table.
  everySettingInEveryWay =
    let
      # SETTING, its value, as a list where it may be one, and what shows it: in the calls of
      # the tools, or on the disk.
      settings = [
        [ "driverLink" "/opt/gpu" "--driver-link /opt/gpu/lib" ]
        [ "driverLinkPosition" "last" "--position last" ]
        [ "cudaCompat" "${compat}/../compat" "--compat ${compat}/../compat" ]
        [ "clearExecutableStacks" "1" "normalize .*--clear-execstack" ]
        [ "cudaResolutionNote" "1" "normalize .*--resolution-note" ]
        [ "cudaRunpathStrict" "1" "--jobs [0-9]+ --driver-link" ]
        [ "noRunpathAmbiguityIgnore" "libone.so lib*.so.2" "noRunpathAmbiguity .*--ignore libone.so --ignore lib[*].so.2 " ]
        [ "noRunpathAmbiguityFlags" "--ignore libthree.so" "noRunpathAmbiguity .*--ignore libthree.so" ]
        [ "cudaCapabilities" "8.0 9.0+PTX" "--for 8.0 9.0[+]PTX" ]
        [ "cudaThin" "1" "runpath thin .*--for" ]
        [ "cudaBlankOptions" "1" "runpath thin .*--blank-options" ]
        [ "thinCudaFlags" "--keep-ptx" "runpath thin .*--cut .*--keep-ptx" ]
        [ "cudaThinCut" "1" "runpath thin .*--cut" ]
        [ "cudaRunpathCheckCapabilities" "1" "runpath gpu .*--for" ]
        [ "cudaCapabilitiesCheckFlags" "--warn" "runpath gpu .*--warn" ]
        [ "cudaRunpathAutoPatchelf" "1" "autoPatchelf .*--tool stubReplace" ]
        [ "appendRunpaths" "/opt/a /opt/b" "--append-rpaths /opt/a /opt/b" ]
        [ "cudaOpened" "1" "autoPatchelf .*--opened" ]
      ];
      switches' = [
        [ "dontStubReplace" "1" "" ]
        [ "dontAutoAddDriverRunpath" "1" "" ]
        [ "dontAddCudaCompatRunpath" "1" "" ]
        [ "dontNoRunpathAmbiguity" "1" "" ]
        [ "dontThinCuda" "1" "" ]
        [ "dontCudaCapabilitiesCheck" "1" "" ]
        [ "dontAutoPatchelf" "1" "" ]
      ];
      name = s: builtins.elemAt s 0;
      value = s: builtins.elemAt s 1;
      words = s: lib.remove [ ] (builtins.split " " (value s));
      strings = list: builtins.listToAttrs (map (s: lib.nameValuePair (name s) (value s)) list);
      lists =
        list:
        builtins.listToAttrs (
          map (
            s: lib.nameValuePair (name s) (if builtins.length (words s) > 1 then words s else value s)
          ) list
        );
      shell = lib.concatMapStrings (s: "${name s}=${lib.escapeShellArg (value s)}\n");
      ways = {
        attribute = list: strings list;
        list = lists;
        structured = list: lists list // { __structuredAttrs = true; };
        env = list: { env = strings list; };
        phase = list: { postInstall = shell list; };
        preFixup = list: { preFixup = shell list; };
        postFixup = list: { postFixup = shell list; };
        arrayInPreFixup = list: {
          preFixup = lib.concatMapStrings (
            s: "${name s}=(${lib.escapeShellArgs (words s)})\n"
          ) list;
        };
      };
      built =
        way: list: more:
        with' (
          keepCalls
          // {
            pname = "settings-${way}";
            nativeBuildInputs = [ counting.cudaRunpathHook ];
            # A library alone: the stand-in's C library is not the one that a program's loader finds.
            build = installCompiled + "rm -r $out/bin";
          }
          // more
          // ways.${way} list
        );
      tried = way: built way settings { };
      switched =
        way:
        built way switches' {
          cudaThin = true;
          cudaRunpathCheckCapabilities = true;
          cudaRunpathAutoPatchelf = true;
        };
    in
    check "every-setting" (
      lib.concatMapStrings (way: ''
        while IFS=' ' read -r setting shows; do
          assertions=$((assertions + 1))
          if grep -qE -e "$shows" ${tried way}/calls; then
            echo "| $setting | ${way} | yes |"
          else
            complain "$setting, ${way}: no '$shows' in the calls: $(< ${tried way}/calls)"
          fi
        done <<'END'
        ${lib.concatMapStringsSep "\n" (s: "${name s} ${builtins.elemAt s 2}") settings}
        END
        same "calls with all switches, ${way}" "$(< ${switched way}/calls)" ""
        ${lib.concatMapStrings (s: ''
          echo "| ${name s} | ${way} | yes |"
        '') switches'}
      '') (builtins.attrNames ways)
    );

  # Settings are read when the tools run: a package may compute them.
  settingsComputedInAPhase = check "settings-in-a-phase" ''
    runPathIs ${
      with' {
        preFixup = ''
          driverLink=/opt/computed
          autoAddDriverRunpathFlagsArray=(--position last)
          stubReplaceFlagsArray=(--position last)
          addCudaCompatRunpathFlagsArray+=(--position last)
        '';
      }
    }/bin/program ${compat}:${greet}/lib:/opt/computed/lib
  '';

  allToolsHearTheSame =
    let
      expected = ''
        ${together} --driver-link /opt/gpu/lib --compat ${compat} --position last
        noRunpathAmbiguity --driver-link /opt/gpu/lib --compat ${compat}'';
    in
    check "same-settings" (
      callsOf "settings" {
        driverLink = "/opt/gpu";
        driverLinkPosition = "last";
      } expected
      + ''
        same "jobs" "$(grep -Eo -e '--jobs [0-9]+' < ${counted { }}/calls | sort -u)" "--jobs $(< ${counted { }}/cores)"
      ''
    );

  flagsAsStringAndAsList =
    let
      expected = lib.concatMapStringsSep "\n" (
        name: "${name} --compat ${compat} --verbose --driver-link /opt/${name}"
      ) hookNames;
      flags = name: [
        "--verbose"
        "--driver-link"
        "/opt/${name}"
      ];
      settings =
        f: builtins.listToAttrs (map (name: lib.nameValuePair "${name}Flags" (f (flags name))) hookNames);
      # Shell arrays, for elements with spaces without structured attributes.
      arrays = lib.concatMapStrings (name: ''
        ${name}FlagsArray=(--verbose --driver-link "/opt/with space/${name}")
      '') hookNames;
    in
    check "flags" (
      callsOf "flags as a list" (settings (list: list)) expected
      + callsOf "flags as a string" (settings toString) expected
      + callsOf "flags in an array" { preFixup = arrays; } (
        lib.concatMapStringsSep "\n" (
          name: "${name} --compat ${compat} --verbose --driver-link /opt/with space/${name}"
        ) hookNames
      )
      # With structured attributes a list keeps its elements whole.
      + ''
        runPathIs ${
          with' {
            __structuredAttrs = true;
            stubReplaceFlags = [
              "--driver-link"
              "/opt/with space"
            ];
            dontAutoAddDriverRunpath = true;
            dontAddCudaCompatRunpath = true;
          }
        }/bin/program "/opt/with space:${greet}/lib"
      ''
    );

  # A pattern in a setting is a word, not a glob: setup.sh has nullglob on.
  ignoredSonames = check "ignored-sonames" (
    lib.concatMapStrings
      (
        value:
        callsOf "noRunpathAmbiguityIgnore" { noRunpathAmbiguityIgnore = value; } (
          "${together} --compat ${compat}\n"
          + "noRunpathAmbiguity --compat ${compat} --ignore lib*.so --ignore libgreet.so.1"
        )
      )
      [
        [
          "lib*.so"
          "libgreet.so.1"
        ]
        "lib*.so libgreet.so.1"
        "  lib*.so\n libgreet.so.1 "
      ]
  );

  # A library that asks for an executable stack, which glibc 2.41 does not open, asks for
  # none afterwards where the package says so, and only there.
  executableStacksAreCleared =
    let
      asks =
        args:
        with' (
          {
            pname = "asks-for-an-executable-stack";
            build = installCompiled + ''
              mkdir -p $out/lib
              echo 'int asks(void) { return 1; }' > asks.c
              $CC -shared -fPIC -z execstack -o $out/lib/libasks.so asks.c
            '';
          }
          // args
        );
      stackOf =
        args:
        ''$(readelf -lW ${asks args}/lib/libasks.so | sed -n 's/.*GNU_STACK.*\(RW[E ]\) 0x.*/\1/p')'';
    in
    check "executable-stacks" (
      inEachMode (mode: ''
        same "stack" "${stackOf (mode // { clearExecutableStacks = true; })}" "RW "
        runPathIs ${asks (mode // { clearExecutableStacks = true; })}/bin/program ${inNormalForm}
        same "stack, asked for by false" "${stackOf (mode // { clearExecutableStacks = false; })}" RWE
      '')
      + callsOf "clearExecutableStacks" { clearExecutableStacks = true; } (
        "${together} --compat ${compat} --clear-execstack\n" + "noRunpathAmbiguity --compat ${compat}"
      )
    );

  # Resolution notes: written in the hooks' own walk where stdenv's hook would write them or the package asks for
  # them, and else not. stdenv's hook here only says that it ran.
  resolutionNotes =
    let
      asks =
        args:
        with' (
          {
            pname = "with-resolution-notes";
            dontPatchELF = null;
            build = installCompiled;
          }
          // args
        );
      withStdenvs =
        args:
        asks (
          {
            build = installCompiled + ''
              _registerGenerateLDCache() { postFixupHooks+=(_generateLDCacheAllOutputs); }
              _generateLDCacheAllOutputs() {
                if [ -z "''${dontGenerateLDCache-}" ]; then mkdir -p $out/by-stdenv; fi
              }
              preFixupHooks+=(_registerGenerateLDCache)
            '';
          }
          // args
        );
      notes = built: "$(readelf -SW ${built}/bin/program | grep -c '\\.note\\.nixos\\.ldcache')";
      off = {
        dontStubReplace = true;
        dontAutoAddDriverRunpath = true;
        dontAddCudaCompatRunpath = true;
        dontNoRunpathAmbiguity = true;
      };
    in
    check "resolution-notes" (
      inEachMode (mode: ''
        same "notes" "${notes (asks mode)}" 0
        same "notes, asked for" "${notes (asks (mode // { cudaResolutionNote = true; }))}" 1
        runPathIs ${asks (mode // { cudaResolutionNote = true; })}/bin/program ${inNormalForm}
        same "notes with stdenv's hook" "${notes (withStdenvs mode)}" 1
        runPathIs ${withStdenvs mode}/bin/program ${inNormalForm}
        same "stdenv's hook ran" "$(find ${withStdenvs mode} -name by-stdenv)" ""
        same "stdenv's hook where none of ours edits" \
          "$(find ${withStdenvs (mode // off)} -name by-stdenv -printf '%f')" by-stdenv
      '')
    );

  # Two hooks with different compat packages are told apart, and one may be chosen.
  compatPackagesThatDisagree =
    let
      other = hooks.addCudaCompatRunpath.override {
        cuda_compat = package {
          pname = "other-compat";
          build = "mkdir -p $out/compat";
        };
      };
      disagreeing = {
        nativeBuildInputs = allHooks ++ [ other ];
      };
    in
    check "two-compat-packages" ''
      contains "log" "$(< ${support.logOfFailure (with' disagreeing)})" "different compat directories"
      runPathIs ${with' (disagreeing // { cudaCompat = compat; })}/bin/program ${inNormalForm}
    '';

  compatOff =
    let
      without =
        cuda_compat:
        with' {
          pname = "without-compat";
          nativeBuildInputs = map (
            hook: if hook ? enableHook then hook.override { inherit cuda_compat; } else hook
          ) allHooks;
        };
      unavailable = compatPackage // {
        meta.available = false;
      };
      # As in nixpkgs with allowUnsupportedSystem.
      unsupported = compatPackage // {
        meta = {
          available = true;
          unsupported = true;
        };
      };
    in
    check "compat-off" ''
      runPathIs ${without null}/bin/program ${withoutCompat}
      contains "log" "$(< ${logOfSuccess (without null)})" "no compat package for this platform"
      contains "log" "$(< ${
        logOfSuccess (with' {
          pname = "empty";
          cudaCompat = "";
        })
      })" "cudaCompat is empty"
      runPathIs ${without unavailable}/bin/program ${withoutCompat}
      same "enableHook" "${
        lib.concatMapStringsSep " "
          (c: if (hooks.addCudaCompatRunpath.override { cuda_compat = c; }).enableHook then "on" else "off")
          [
            null
            unavailable
            unsupported
            compatPackage
          ]
      }" "off off off on"
      runPathIs ${
        with' { nativeBuildInputs = [ (hooks.cudaRunpathHook.override { cuda_compat = null; }) ]; }
      }/bin/program ${withoutCompat}
    '';

  # A package's phases may set what they like: the hooks run under errexit and nounset.
  underNounset = check "nounset" (
    lib.concatMapStrings
      (
        args:
        inEachMode (mode: ''
          runPathIs ${
            with' (
              mode
              // {
                pname = "under-nounset";
                preFixup = "set -eu";
                # nixpkgs' strip does not bear it.
                dontStrip = true;
                stubReplaceForChecks = true;
                doInstallCheck = true;
                installCheckPhase = "$out/bin/program";
              }
              // args
            )
          }/bin/program ${withoutCompat}
        '')
      )
      [
        { nativeBuildInputs = [ hooks.stubReplace ]; }
        { nativeBuildInputs = [ (hooks.cudaRunpathHook.override { cuda_compat = null; }) ]; }
        { cudaCompat = ""; }
      ]
  );

  # Nor does what a package does to the shell, in whose middle the hooks run, change
  # what they do: with flags of one tool's own, which makes them processes of their own,
  # and without, and autoPatchelf beside them.
  whateverTheShellIsSetTo =
    let
      args = {
        pname = "shell-settings";
        outputs = [
          "out"
          "lib"
        ];
        outputDev = "out";
        build = installCompiled + ''
          mkdir $lib
          mv $out/lib $lib/lib
        '';
        noRunpathAmbiguityIgnore = "lib*.so libgreet.so.?";
        stubReplaceForChecks = true;
        doInstallCheck = true;
        installCheckPhase = "$out/bin/program";
      };
      # The compat package's libcuda.so.1 answers otherwise than the stub.
      flagged = args // {
        autoAddDriverRunpathFlags = "--when always";
        cudaCompat = "";
      };
      patched = args // {
        nativeBuildInputs = [ hooks.cudaRunpathHook ];
        cudaRunpathAutoPatchelf = true;
        autoPatchelfIgnoreMissingDeps = "libnowhere* libnothing.so.?";
        # The stand-in's C library is this machine's, whose loader looks elsewhere.
        doInstallCheck = false;
        dontNoRunpathAmbiguity = true;
        preFixup = ''
          find() { return 1; }
          sort() { return 1; }
          addAutoPatchelfSearchPath ${greet}
          unset -f find sort
        '';
      };
      # After nixpkgs' own hooks, which not all bear it.
      inTheMiddle = setting: ''
        inTheMiddle() { ${setting}; }
        postFixupHooks+=(inTheMiddle)
      '';
      are = built: list: ''
        runPathIs ${built}/bin/program ${list}
        runPathIs ${built.lib}/lib/libuse.so ${list}
      '';
      under =
        way:
        are (with' (flagged // way)) withoutCompat
        + are (with' (args // { __structuredAttrs = true; doInstallCheck = false; } // way)) inNormalForm
        + are (with' (patched // way // { preFixup = patched.preFixup + "\n" + way.preFixup; })) inNormalForm;
    in
    check "shell-settings" (
      # Each at once with others that do not undo it.
      lib.concatMapStrings (setting: under { preFixup = inTheMiddle setting; }) [
        "IFS=$'\\n'; set -f; shopt -s nocasematch"
        "IFS=:; set -eu; cd /"
        "IFS=,; set +e +o pipefail; find() { return 1; }; readlink() { return 1; }"
        "IFS=; set -o posix"
        "unset IFS; shopt -u nullglob inherit_errexit"
        "shopt -s failglob dotglob extglob inherit_errexit"
      ]
      # From the beginning of fixup, which nixpkgs' own hooks bear with one output; and in a
      # function of the package's with variables of its own.
      + lib.concatMapStrings
        (
          way:
          lib.concatMapStrings
            (mode: ''
              runPathIs ${with' ({ pname = "shell-settings"; } // mode // way)}/bin/program ${inNormalForm}
            '')
            [
              { }
              { autoAddDriverRunpathFlags = "--when always"; }
              {
                nativeBuildInputs = [ hooks.cudaRunpathHook ];
                buildInputs = [ greet ];
                cudaRunpathAutoPatchelf = true;
                dontNoRunpathAmbiguity = true;
              }
            ]
        )
        [
          { preFixup = "IFS=$'\\n'"; }
          { preFixup = "unset IFS"; }
          {
            preFixup = ''
              eval "inner$(declare -f runHook)"
              runHook() {
                local -i tool=1 status=1 entry=1 name=1 tools=1 flags=1 names=1 file=1 line=1
                local -r list=fixed option=fixed command=fixed binary=fixed
                innerrunHook "$@"
              }
            '';
          }
        ]
    );

  # nixpkgs' shell function, called by hand, brought by both derivations.
  addDriverRunpathFunction =
    let
      calls =
        hook:
        package {
          pname = "by-hand";
          nativeBuildInputs = [ hook ];
          dontAutoAddDriverRunpath = true;
          dontPatchELF = true;
          build = installCompiled + ''
            printf '#!/bin/sh\n' > $out/bin/script
            ln -s libuse.so $out/lib/libuse.so.1
          '';
          postFixup = ''
            addDriverRunpath $out/bin/* $out/lib/libuse.so.1
            addDriverRunpath $out/lib/none-of-these*
            if addDriverRunpath --no-such-flag $out/bin/program; then exit 1; fi
            addDriverRunpath $out/bin/missing
          '';
        };
      forced = package {
        pname = "by-hand-forced";
        nativeBuildInputs = [ hooks.addDriverRunpath ];
        build = installCompiled;
        postFixup = ''addDriverRunpath --force-rpath -- "$out/bin/program"'';
      };
    in
    check "add-driver-runpath" ''
      for package in ${calls hooks.addDriverRunpath} ${calls hooks.autoAddDriverRunpath}; do
        runPathIs $package/bin/program ${driver}:${stubs}:${greet}/lib
        runPathIs $package/lib/libuse.so ${driver}:${stubs}:${greet}/lib
      done
      contains "forced" "$(readelf -dW ${forced}/bin/program)" "(RPATH)"
      same "driverLink" "${hooks.addDriverRunpath.driverLink}" /run/opengl-driver
    '';
}
