# What the flake offers beside the hooks: the package, the overlays, the audit, the
# template, and the same without flakes.
support: flake:
let
  inherit (support)
    check
    compat
    compatPackage
    compiled
    driver
    greet
    hookNames
    inNormalForm
    installCompiled
    lib
    logOfSuccess
    ours
    package
    pkgs
    stubs
    ;
  tools = ours.cuda-runpath;

  # The store paths that a package needs, itself among them.
  closureOf =
    package:
    pkgs.runCommand "closure"
      {
        exportReferencesGraph = [
          "graph"
          package
        ];
      }
      ''
        grep '^${builtins.storeDir}/' graph | sort -u > $out
      '';

  dropIn = pkgs.extend flake.overlays.dropIn;
  # Those that have been removed are there too, and throw.
  evaluates = value: (builtins.tryEval (builtins.seq value true)).success;
  setsOf =
    pkgs:
    builtins.filter (
      name: builtins.match "cudaPackages(_[0-9_]+)?" name != null && evaluates pkgs.${name}
    ) (builtins.attrNames pkgs);
  cudaSets = setsOf pkgs;
  # The directory that a hook of a set must put first.
  compatOf =
    set:
    let
      theirs = set.cuda_compat or null;
    in
    if theirs != null && theirs.meta.available or true then "${theirs}/compat" else "";
  # What a hook brings of a KEY.
  broughtBy = hook: key: ''$(sed -n "s/^cudaRunpathBring .*'${key}=\([^']*\)'.*/\1/p" ${hook}/nix-support/setup-hook)'';
  # pkgs has the overlay already.
  bareNixpkgs = import pkgs.path { inherit (pkgs.stdenv.hostPlatform) system; };
  # All of nixpkgs would take minutes.
  some = set: {
    inherit (set)
      autoAddDriverRunpath
      addDriverRunpath
      autoPatchelfHook
      python3
      jq
      ;
    extend = overlay: some (set.extend overlay);
  };
  # What every package says that is written for nixpkgs' hooks.
  dropInPackage =
    args:
    package (
      {
        pname = "drop-in";
        nativeBuildInputs = [
          (dropIn.cudaPackages.autoAddCudaCompatRunpath.override { cuda_compat = compatPackage; })
          dropIn.cudaPackages.removeStubsFromRunpathHook
          dropIn.autoAddDriverRunpath
        ];
        build = installCompiled;
      }
      // args
    );
  example = pkgs.callPackage ../template/package.nix {
    cudaPackages.cuda_cudart = support.stubPackage true;
    cudaRunpathHook = ours.cudaRunpathHook.override { cuda_compat = null; };
  };

  clean = package {
    pname = "clean";
    build = ''
      mkdir -p $out/lib
      echo 'int use(void) { return 0; }' > use.c
      $CC -shared -fPIC -o $out/lib/libuse.so use.c
    '';
  };
  otherGreet = package {
    pname = "other-greet";
    outputs = [
      "out"
      "lib"
    ];
    build = ''
      mkdir -p $out $lib/lib
      echo 'int greet(void) { return 8; }' > greet.c
      $CC -shared -fPIC -Wl,-soname,libgreet.so.1 -o $lib/lib/libgreet.so.1 greet.c
    '';
  };
  ambiguous = package {
    pname = "ambiguous";
    # The shrink step would keep only the first directory that holds the library.
    dontPatchELF = true;
    outputs = [
      "out"
      "lib"
    ];
    build = ''
      mkdir -p $out $lib/lib
      echo 'int greet(void); int use(void) { return greet(); }' > use.c
      $CC -shared -fPIC -o $lib/lib/libuse.so use.c -L${greet}/lib -lgreet \
        -Wl,-rpath,${greet}/lib:${otherGreet.lib}/lib
    '';
  };
  audit = flake.lib.auditPackages { inherit clean ambiguous; };
  manifest = flake.lib.manifest { packages = { inherit clean ambiguous; }; };
  # What Nix knows of the closure of a package.
  graphOf =
    package:
    pkgs.runCommand "graph" {
      __structuredAttrs = true;
      nativeBuildInputs = [ pkgs.jq ];
      exportReferencesGraph.graph = [ package ];
    } ''jq .graph "$NIX_ATTRS_JSON_FILE" > $out'';
in
{
  packageIsComplete = check "package" ''
    same "programs" "$(cd ${tools}/bin && echo *)" \
      "$(jq -r '.[] | select(.install != false).name' ${../../cmd/tools.json} | cat - <(echo hostDriver) | LC_ALL=C sort | paste -sd ' ')"
    for command in $(ls ${tools}/bin); do
      same "$command is static" "$(readelf -lW ${tools}/bin/$command | grep -c INTERP)" 0
      contains "$command --version" "$(${tools}/bin/$command --version)" ${tools.version}
      holds "man page of $command" test -s ${lib.getOutput "man" tools}/share/man/man1/$command.1*
      holds "completions of $command" test \
        -s ${tools}/share/bash-completion/completions/$command.bash \
        -a -s ${tools}/share/zsh/site-functions/_$command \
        -a -s ${tools}/share/fish/vendor_completions.d/$command.fish
    done
    same "tests of the package" "${toString (builtins.length (builtins.attrNames tools.tests) > 20)}" 1
    same "meta" "${
      lib.concatMapStringsSep " " (name: if tools.meta ? ${name} then name else "no ${name}") [
        "description"
        "homepage"
        "changelog"
        "longDescription"
        "license"
        "mainProgram"
        "platforms"
      ]
    }" "description homepage changelog longDescription license mainProgram platforms"
    # Only what the compiler reads: no tests, documentation or Nix.
    same "the source" "$(cd ${tools.src} && echo *)" "cmd go.mod go.sum pkg"
    same "tests and documentation in the source" \
      "$(find ${tools.src} -name '*_test.go' -o -name testdata -o -name '*.md' -o -name '*.nix')" ""
  '';

  # A hook needs its own text, what it sources and the program; static, so nothing else.
  closureIsSmall =
    let
      names = hookNames ++ [
        "cudaRunpathHook"
        "addDriverRunpath"
      ];
      compatless = lib.genAttrs names (
        name:
        let
          hook = ours.${name};
        in
        if hook ? enableHook then hook.override { cuda_compat = null; } else hook
      );
    in
    check "closure" (
      lib.concatMapStrings (name: ''
        same "closure of ${name}" "$(sed 's|.*/[a-z0-9]*-||' ${closureOf compatless.${name}} | sort | tr '\n' ' ')" \
          "$(printf '%s\n' core.bash ${lib.optionalString (name == "cudaRunpathHook") "autoPatchelf.bash"} \
            cuda-runpath-${tools.version}-tools ${compatless.${name}.name} | sort | tr '\n' ' ')"
      '') (builtins.attrNames compatless)
      # A reader sees in a screen or two what a hook does.
      + lib.concatMapStrings (hook: ''
        mapfile -t parts < <(sed -n 's/^ *source //p' ${hook}/nix-support/setup-hook)
        size=$(cat ${hook}/nix-support/setup-hook "''${parts[@]}" | wc -c)
        holds "${hook.name} has $size bytes, with what it sources" test "$size" -le 10000
      '') (
        map (name: ours.${name}) (
          names
          ++ [
            "autoPatchelfHook"
            "cudaCapabilitiesCheck"
            "thinCuda"
          ]
        )
        ++ [
          dropIn.autoAddDriverRunpath
          dropIn.cudaPackages.autoAddCudaCompatRunpath
          dropIn.cudaPackages.removeStubsFromRunpathHook
        ]
      )
      + ''
        # All tools are in it, manifests and images too.
        program=$(wc -c < ${lib.getOutput "tools" tools}/bin/runpath)
        holds "the program has $program bytes, at most 10,450,000" test "$program" -le 10450000
        for name in ${toString hookNames}; do
          same "$name" "$(readlink ${lib.getOutput "tools" tools}/bin/$name)" runpath
        done
      ''
    );

  # A package that asks for it gets patchelf's command line; all others keep the patchelf
  # that they have.
  patchelfIsAnOutputOfItsOwn =
    let
      # As packages call it, and as scripts do that look for where it really is.
      uses = package {
        pname = "uses-patchelf";
        nativeBuildInputs = [ ours.patchelf ];
        dontPatchELF = true;
        build = ''
          ${installCompiled}
          program=$out/bin/program
          type -P patchelf > $out/which
          patchelf --version > $out/version
          patchelf --set-rpath /opt/lib:${greet}/lib --print-rpath $program > $out/before
          real=$(readlink -f "$(type -P patchelf)")
          $real --print-rpath $program > $out/after
          $real --add-rpath /opt/more $program
          if patchelf --set-rpath /opt/wrong $out/absent 2> $out/error; then
            echo "a file that is not there is no error" >&2
            exit 1
          fi
        '';
      };
      others = map (output: lib.getOutput output tools) (lib.remove "patchelf" tools.outputs);
    in
    check "patchelf" ''
      same "files of the output" "$(cd ${ours.patchelf} && find . ! -type d)" ./bin/patchelf
      same "bin/patchelf" "$(stat -c %F ${ours.patchelf}/bin/patchelf)" "regular file"
      same "its closure" "$(< ${closureOf ours.patchelf})" ${ours.patchelf}
      same "meta.mainProgram" "${ours.patchelf.meta.mainProgram}" patchelf
      holds "there are other outputs" test -e ${tools}/bin/runpath
      same "patchelf in the other outputs" "$(find ${toString others} -name 'patchelf*')" ""
      same "nixpkgs' patchelf with the overlays" "${pkgs.patchelf} ${dropIn.patchelf}" \
        "${bareNixpkgs.patchelf} ${bareNixpkgs.patchelf}"

      same "which patchelf" "$(< ${uses}/which)" ${ours.patchelf}/bin/patchelf
      # The first two words, by which programs tell patchelf's version.
      same "--version" "$(cut -d ' ' -f 1,2 ${uses}/version)" "patchelf 0.19.1"
      same "printed while it is set" "$(< ${uses}/before)" "$(runPath ${compiled}/bin/program)"
      same "printed after it is set" "$(< ${uses}/after)" /opt/lib:${greet}/lib
      runPathIs ${uses}/bin/program /opt/lib:${greet}/lib:/opt/more
      contains "the error" "$(< ${uses}/error)" "getting info about '${uses}/absent': No such file or directory"
    '';

  # The overlay adds names, and changes none that nixpkgs has.
  defaultOverlayReplacesNothing =
    let
      added = builtins.attrNames (flake.overlays.default pkgs pkgs);
      isSet = name: name == "_cuda" || builtins.match "cudaPackages(_[0-9_]+)?" name != null;
      both = builtins.filter (name: bareNixpkgs ? ${name}) added;
      setNames = builtins.attrNames (
        removeAttrs pkgs.cudaPackages (builtins.attrNames bareNixpkgs.cudaPackages)
      );
    in
    check "overlay" ''
      same "names that nixpkgs has too" "${toString (builtins.filter (name: !(isSet name)) both)}" ""
      same "names that the CUDA sets get" "${toString setNames}" \
        "addCudaCompatRunpath cudaCapabilitiesCheck cudaRunpathHook noRunpathAmbiguity stubReplace thinCuda"
      same "packages of the CUDA sets that are other than before" "${
        toString (
          builtins.filter
            (
              name:
              evaluates (bareNixpkgs.cudaPackages.${name}.drvPath or null)
              && pkgs.cudaPackages.${name}.drvPath or null != bareNixpkgs.cudaPackages.${name}.drvPath or null
            )
            [
              "cuda_cudart"
              "cuda_compat"
              "libcublas"
              "autoAddCudaCompatRunpath"
              "removeStubsFromRunpathHook"
            ]
        )
      }" ""
      same "aliases" "${
        toString [
          (ours.autoAddCudaCompatRunpath == ours.addCudaCompatRunpath)
          (ours.removeStubsFromRunpathHook == ours.stubReplace)
          (ours.noRunpathAmbiguityHook == ours.noRunpathAmbiguity)
        ]
      }" "1 1 1"
      same "without flakes" ${(import ../. { inherit pkgs; }).cudaRunpathHook} ${pkgs.cudaRunpathHook}
    '';

  # Each CUDA set has hooks of its own, with its own compat package; pkgs has those of the
  # default set.
  everySetHasItsHooks = check "sets" (
    lib.concatMapStrings (
      set:
      lib.concatMapStrings
        (name: ''
          same "${set}.${name}" "${broughtBy pkgs.${set}.${name} "compat"}" "${compatOf pkgs.${set}}"
        '')
        [
          "cudaRunpathHook"
          "addCudaCompatRunpath"
        ]
    ) cudaSets
    + lib.concatMapStrings (name: ''
      same "pkgs.${name} is the default set's" ${pkgs.${name}} ${pkgs.cudaPackages.${name}}
    '') [ "cudaRunpathHook" "addCudaCompatRunpath" "stubReplace" "noRunpathAmbiguity" ]
    + ''
      same "sets of which some have no hook" "${
        toString (builtins.filter (set: !(pkgs.${set} ? stubReplace && pkgs.${set} ? noRunpathAmbiguity)) cudaSets)
      }" ""
      same "sets that throw with the overlay, and not without" "${
        toString (
          builtins.filter (name: evaluates bareNixpkgs.${name} && !(evaluates pkgs.${name})) (setsOf bareNixpkgs)
        )
      }" ""
    ''
  );

  # What nixpkgs' buildRedist makes, built with our hooks in place of its own. Unfree, so
  # there is nothing to see here in a nixpkgs that does not allow that.
  redistributablesWithDropIn = check "redistributables" (
    lib.concatMapStrings (
      set:
      lib.concatMapStrings
        (
          name:
          let
            package = dropIn.${set}.${name} or null;
          in
          if package != null && evaluates package.drvPath then
            lib.concatMapStrings (output: ''
              holds "${set}.${name}, ${output}" test -e ${package.${output}}
              same "run paths with a stub directory in ${set}.${name}, ${output}" \
                "$(find -L ${package.${output}} -type f -exec readelf -dW {} + 2>/dev/null | grep 'R.*PATH.*stubs' || true)" ""
              same "run paths with an empty entry there" \
                "$(find -L ${package.${output}} -type f -exec readelf -dW {} + 2>/dev/null | grep -E 'R.*PATH.*(\[:|::|:\])' || true)" ""
            '') package.outputs
          else
            ''
              holds "nothing of ${set}.${name} here" true
            ''
        )
        [
          "cuda_cudart"
          "cuda_nvml_dev"
          "libcublas"
          "cuda_compat"
        ]
    ) cudaSets
  );

  dropInReplacesNixpkgsHooks = check "drop-in" (
    ''
      runPathIs ${dropInPackage { }}/bin/program ${inNormalForm}
      runPathIs ${dropInPackage { }}/lib/libuse.so ${inNormalForm}
      same "names" "${dropIn.autoAddDriverRunpath.name} ${dropIn.cudaPackages.removeStubsFromRunpathHook.name} ${dropIn.cudaPackages.autoAddCudaCompatRunpath.name}" \
        "${pkgs.autoAddDriverRunpath.name} ${bareNixpkgs.cudaPackages.removeStubsFromRunpathHook.name} ${bareNixpkgs.cudaPackages.autoAddCudaCompatRunpath.name}"
      # Without the one that many packages list.
      same "nixpkgs' autoPatchelfHook" "${
        (bareNixpkgs.extend (
          final: prev: removeAttrs (flake.overlays.dropIn final prev) [ "autoPatchelfHook" ]
        )).autoPatchelfHook
      }" "${bareNixpkgs.autoPatchelfHook}"
      contains "autoAddDriverRunpath" "$(< ${dropIn.autoAddDriverRunpath}/nix-support/setup-hook)" \
        "cudaRunpathStandIn addDriverRunpath"
    ''
    # In every set, and with the set's own compat package.
    + lib.concatMapStrings (set: ''
      contains "${set}.removeStubsFromRunpathHook" \
        "$(< ${
          dropIn.${set}.removeStubsFromRunpathHook
        }/nix-support/setup-hook)" "cudaRunpathStandIn removeStubsFromRunpath"
      same "${set}.autoAddCudaCompatRunpath" \
        "${broughtBy dropIn.${set}.autoAddCudaCompatRunpath "compat"}" "${compatOf dropIn.${set}}"
      same "${set}.autoAddCudaCompatRunpath.enableHook" \
        "${toString dropIn.${set}.autoAddCudaCompatRunpath.enableHook}" "${toString (compatOf dropIn.${set} != "")}"
    '') cudaSets
    # nixpkgs' shell functions.
    + ''
      runPathIs ${
        dropInPackage {
          dontStubReplace = true;
          dontAutoAddDriverRunpath = true;
          dontAddCudaCompatRunpath = true;
          dontPatchELF = true;
          postFixup = ''
            addCudaCompatRunpath $out/bin/program
            autoFixElfFiles removeStubsFromRunpath
            addDriverRunpath $out/lib/libuse.so
          '';
        }
      }/bin/program ${inNormalForm}
      same "getRunpathEntries" "$(tr '\n' ' ' < ${
        dropInPackage {
          dontPatchELF = true;
          postFixup = ''
            declare -a entries=()
            getRunpathEntries $out/bin/program entries
            printf '%s\n' "''${entries[@]}" > $out/entries
          '';
        }
      }/entries)" "${stubs} ${greet}/lib "
    ''
    # Beside an overlay whose own additions to _cuda need the final packages.
    + ''
      same "beside another overlay" "${
        (
          (pkgs.extend (
            final: prev: {
              _cuda = prev._cuda.extend (_: _: final.lib.optionalAttrs true { somebodys = true; });
            }
          )).extend
          flake.overlays.dropIn
        ).cudaPackages.removeStubsFromRunpathHook
      }" ${dropIn.cudaPackages.removeStubsFromRunpathHook}
    ''
    # What it rebuilds: nothing but what names the hooks.
    + ''
      same "rebuilt" "${toString (flake.lib.dropInRebuilds (some pkgs))}" "autoAddDriverRunpath autoPatchelfHook"
    ''
  );

  # go.mod asks for Go 1.25. A nixpkgs without it is told so before anything is built.
  goIsNewEnough =
    let
      old = pkgs.extend (
        _: prev: {
          go = prev.go // {
            version = "1.22.0";
          };
          buildGo125Module = pkgs.buildGoModule;
        }
      );
      # In place of an overlay, which takes no name away.
      ours = pkgs: (import ../. { inherit pkgs; }).cuda-runpath.drvPath;
    in
    check "go" ''
      same "evaluates with Go 1.22 alone" "${
        toString (evaluates (ours (removeAttrs old [ "buildGo125Module" ])))
      }" ""
      same "evaluates with Go 1.25 beside it" "${toString (evaluates (ours old))}" 1
    '';

  # The log names the files that were changed, and no others.
  logNamesChangedFiles = check "log" (
    let
      log = logOfSuccess (dropInPackage {
        build = ''
          ${installCompiled}
          echo 'text' > $out/lib/text.so
          cp $out/lib/libuse.so right.so
          ${pkgs.patchelf}/bin/patchelf --set-rpath ${inNormalForm} right.so
          install -D right.so $out/lib/right.so
        '';
        dontPatchELF = true;
      });
    in
    ''
      same "lines on changed files" "$(grep -o '[^/ ]*: .* -> ' ${log} | sed 's/:.*//' | sort | tr '\n' ' ')" "libuse.so program "
      same "lines on other files" "$(grep -e right.so -e text.so ${log})" ""
    ''
  );

  # Packages list the hooks without asking for the platform; where there are no ELF files
  # they are there and do nothing.
  hooksEvaluateOnDarwin =
    let
      darwin = import pkgs.path {
        system = "aarch64-darwin";
        overlays = [ flake.overlays.dropIn ];
      };
    in
    check "darwin" ''
      same "hooks that do not evaluate" "${
        toString (
          builtins.filter (name: !(evaluates darwin.${name}.drvPath)) [
            "autoAddDriverRunpath"
            "cudaRunpathHook"
            "stubReplace"
            "noRunpathAmbiguity"
          ]
        )
      }" ""
      same "hooks that need the tools there" "${
        toString (
          builtins.filter (
            name: builtins.match ".*-tools.*" (toString darwin.${name}.propagatedBuildInputs) != null
          ) [ "autoAddDriverRunpath" "cudaRunpathHook" ]
        )
      }" ""
    '';

  audit = check "audit" ''
    same "no packages is an error of evaluation" "${
      toString (builtins.tryEval (flake.lib.auditPackages { }).drvPath).success
    }" ""
    same "summary" "$(tail -n 1 ${audit}/summary.txt)" "1 of 2 packages have findings"
    same "clean" "$(jq -r '.[] | select(.clean) | .name' ${audit}/summary.json)" clean
    same "status" "$(< ${audit.reports.ambiguous}/status) $(< ${audit.reports.clean}/status)" "1 0"
    contains "report" "$(< ${audit.reports.ambiguous}/ambiguity.json)" ${ambiguous.lib}/lib/libuse.so
    contains "report" "$(< ${audit.reports.ambiguous}/ambiguity.json)" libgreet.so.1
    for report in audit.json audit.sarif; do
      holds "$report is JSON" jq -e 'type == "object"' ${audit.reports.ambiguous}/$report
      contains "$report" "$(< ${audit.reports.ambiguous}/$report)" libuse.so
    done
    contains "audit.html" "$(< ${audit.reports.ambiguous}/audit.html)" libuse.so
    contains "log" "$(< ${
      support.logOfFailure (flake.lib.auditPackagesWith { failOnFindings = true; } { inherit ambiguous; })
    })" "1 of 1 packages have findings"
    contains "log" "$(< ${
      flake.lib.auditPackagesWith {
        failOnFindings = true;
        flags = [
          "--ignore"
          "libgreet.so.1"
        ];
      } { inherit ambiguous; }
    }/summary.txt)" "0 of 1 packages have findings"
  '';

  manifest = check "manifest" ''
    same "no packages is an error of evaluation" "${
      toString (builtins.tryEval (flake.lib.manifest { packages = { }; }).drvPath).success
    }" ""
    of() { jq -r "$1" ${manifest}/manifest.json; }
    same "packages" "$(of '.packages[].name' | sort | tr '\n' ' ')" "ambiguous-1.0 ambiguous-1.0-lib clean-1.0 "
    same "library" "$(of '.files[] | select(.path == "lib/libuse.so" and .soname == null) | .loads[]? | select(.name == "libgreet.so.1") | .path')" \
      ${greet}/lib/libgreet.so.1
    # What Nix says of the closure, in a build that cannot ask the store: libgreet's package has no references.
    same "bytes of a reference" "$(of '.packages[] | select(.path == "${ambiguous.lib}") | .references[] | select(.object == "${otherGreet.lib}") | .bytes')" \
      "$(jq -r '.[] | select(.path == "${otherGreet.lib}") | .narSize' ${graphOf otherGreet.lib})"
    same "one of each package" "$(jq -r '.packages[].path' ${manifest.manifests.clean}/manifest.json)" ${clean}
    contains "the page" "$(< ${manifest}/index.html)" "ambiguous-1.0-lib"
  '';

  template = check "template" ''
    contains "run path" ":$(runPath ${example}/bin/driver-version):" :${driver}:
    lacks "run path" "$(runPath ${example}/bin/driver-version)" stubs
    contains "without a driver" "$(${example}/bin/driver-version 2>&1 || true)" "libcuda.so.1"
    contains "with a driver" "$(LD_LIBRARY_PATH=${compat} ${example}/bin/driver-version)" "0.0"
    contains "--help" "$(LD_LIBRARY_PATH=${compat} ${example}/bin/driver-version --help)" driver-version
    same "the GPU check asks for a GPU" "${toString example.gpuCheck.requiredSystemFeatures}" cuda
  '';
}
