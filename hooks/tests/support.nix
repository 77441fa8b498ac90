# What the checks build with: a toolkit and a compat package in small, files as a
# compiler leaves them, and functions to make packages and to look at them.
{
  pkgs,
  # The hooks, hooksFor, and the program as cuda-runpath.
  ours,
}:
let
  inherit (pkgs) lib stdenv;

  hookNames = [
    "stubReplace"
    "autoAddDriverRunpath"
    "addCudaCompatRunpath"
    "noRunpathAmbiguity"
  ];

  # No run path entries but those that a command asks for, in nixpkgs as in the
  # stand-in, so that the checks can compare whole lists.
  bare = {
    NIX_DONT_SET_RPATH = "1";
    NIX_NO_SELF_RPATH = "1";
  };

  # What fixup does beside the run paths takes a third of a build's time: only where it matters.
  whole = lib.genAttrs [
    "dontPatchShebangs"
    "dontPruneLibtoolFiles"
    "dontStrip"
    "noAuditTmpdir"
  ] (_: false);

  # A package with no source: `build` is run with a C compiler, in an empty directory.
  package =
    args:
    stdenv.mkDerivation (
      {
        version = "1.0";
        # With no source there is nothing to do in these, but setup.sh takes a sixth of a build's time for it.
        dontUnpack = true;
        dontPatch = true;
        dontConfigure = true;
        dontBuild = true;
        preferLocalBuild = true;
      }
      // builtins.mapAttrs (_: _: true) whole
      // removeAttrs args [ "build" ]
      // {
        env = bare // args.env or { };
      }
      // lib.optionalAttrs (args ? build) {
        installPhase = ''
          runHook preInstall
          ${args.build}
          runHook postInstall
        '';
      }
    );

  # A libcuda.so.1 that says STATUS.
  libcuda = status: file: ''
    cat > libcuda.c <<'END'
    int cuInit(unsigned flags) { (void)flags; return ${toString status}; }
    int cuDriverGetVersion(int *version) { *version = 0; return ${toString status}; }
    END
    $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o ${file} libcuda.c
  '';

  library =
    name:
    package {
      pname = name;
      dontFixup = true;
      build = ''
        mkdir -p $out/lib
        echo 'int ${name}(void) { return 7; }' > ${name}.c
        $CC -shared -fPIC -Wl,-soname,lib${name}.so.1 -o $out/lib/lib${name}.so.1 ${name}.c
        ln -s lib${name}.so.1 $out/lib/lib${name}.so
      '';
    };
in
rec {
  inherit
    pkgs
    lib
    ours
    package
    whole
    bare
    hookNames
    libcuda
    ;

  # ---------------------------------------------------------------- fixtures

  # The stubs, named as nixpkgs names them: …-stubs/lib/stubs. `libcuda.so.1` is
  # there too, as in nixpkgs, or not, as NVIDIA ships it.
  stubPackage =
    versioned:
    package {
      pname = "cuda12.9-cuda_cudart${lib.optionalString (!versioned) "-unversioned"}";
      outputs = [
        "out"
        "stubs"
      ];
      dontFixup = true;
      build = ''
        mkdir -p $out $stubs/lib/stubs
        ${libcuda 34 "$stubs/lib/stubs/libcuda.so"}
        ${lib.optionalString versioned "ln -s libcuda.so $stubs/lib/stubs/libcuda.so.1"}
      '';
    };
  stubs = "${(stubPackage true).stubs}/lib/stubs";
  unversionedStubs = "${(stubPackage false).stubs}/lib/stubs";

  compatPackage = package {
    pname = "cuda12.9-cuda_compat";
    dontFixup = true;
    build = ''
      mkdir -p $out/compat
      ${libcuda 0 "$out/compat/libcuda.so.1"}
    '';
  };
  compat = "${compatPackage}/compat";
  driver = "/run/opengl-driver/lib";

  greet = library "greet";
  wave = library "wave";

  # Files as a compiler leaves them, made once: a program and a library that need the
  # driver and libgreet, with the stubs in front of their run paths.
  compiled = package {
    pname = "compiled";
    dontFixup = true;
    build = ''
      mkdir -p $out/bin $out/lib
      echo 'int cuInit(unsigned); int greet(void); int use(void) { return cuInit(0) + greet(); }' > use.c
      echo 'int use(void); int main(void) { return use() == 41 ? 0 : 1; }' > main.c
      flags="-L${stubs} -lcuda -L${greet}/lib -lgreet -Wl,-rpath,${stubs}:${greet}/lib"
      $CC -shared -fPIC -o $out/lib/libuse.so use.c $flags
      $CC -o $out/bin/program main.c use.c $flags
    '';
  };
  # How a package installs them.
  installCompiled = ''
    mkdir -p $out
    cp -r ${compiled}/. $out/
    chmod -R u+w $out
  '';
  # What their run path must be.
  inNormalForm = "${compat}:${driver}:${greet}/lib";
  withoutCompat = "${driver}:${greet}/lib";

  # ------------------------------------------------------------------- hooks

  hooks = {
    inherit (ours)
      stubReplace
      autoAddDriverRunpath
      noRunpathAmbiguity
      addDriverRunpath
      ;
    addCudaCompatRunpath = ours.addCudaCompatRunpath.override { cuda_compat = compatPackage; };
    cudaRunpathHook = ours.cudaRunpathHook.override { cuda_compat = compatPackage; };
  };
  allHooks = map (name: hooks.${name}) hookNames;

  # The tools, noting each call and its arguments in $NIX_BUILD_TOP/calls. As `runpath hook
  # $killedAt` they are killed.
  countingTools = package {
    pname = "counting-tools";
    version = "999.0"; # of no release
    outputs = [
      "out"
      "tools"
    ];
    dontFixup = true;
    build = ''
      mkdir -p $out $tools/bin
      for tool in ${toString hookNames} runpath autoPatchelf; do
        cat > $tools/bin/$tool <<END
      #!${pkgs.bash}/bin/bash
      if [[ "\$*" == "hook \''${killedAt-never}"* ]]; then kill -KILL \$\$; fi
      if [[ "\''${1-}" != hook ]]; then echo "$tool \$*" >> "\$NIX_BUILD_TOP/calls"; fi
      exec ${ours.cuda-runpath}/bin/$tool "\$@"
      END
        chmod +x $tools/bin/$tool
      done
    '';
  };
  counting = builtins.mapAttrs (_: hook: hook.override { cuda-runpath = countingTools; }) hooks;
  # For packages with counting hooks: puts the calls into $out/calls, and the number of
  # processors that the build may use into $out/cores.
  keepCalls = {
    doInstallCheck = true;
    installCheckPhase = ''
      touch $NIX_BUILD_TOP/calls
      cp $NIX_BUILD_TOP/calls $out/calls
      echo $NIX_BUILD_CORES > $out/cores
    '';
  };

  # ------------------------------------------------------------------ checks

  # check NAME TEXT: a derivation that runs TEXT's assertions (assert.bash).
  check =
    name: text:
    pkgs.runCommand "check-${name}"
      {
        nativeBuildInputs = [
          pkgs.binutils
          pkgs.jq
          ours.cuda-runpath
        ];
      }
      ''
        source ${./assert.bash}
        ${text}
        done_
      '';

  # The log of a build that must fail; it fails where that build succeeds.
  logOfFailure = failing: "${pkgs.testers.testBuildFailure failing}/testBuildFailure.log";

  # The log of a build that must succeed, with its outputs thrown away.
  logOfSuccess =
    package:
    let
      original = package.drvAttrs;
    in
    package.overrideAttrs (_: {
      name = "log-of-${package.name}";
      remove = "${pkgs.coreutils}/bin/rm";
      args = [
        ./keep-log.bash
        original.builder
      ]
      ++ original.args;
    });

  # A setup hook of this text.
  hookOf = text: pkgs.makeSetupHook { name = "some-hook"; } (pkgs.writeText "some-hook.sh" text);

  # In what a package may be built; with these two, either setting is seen on and off.
  modes = [
    { }
    {
      strictDeps = true;
      __structuredAttrs = true;
    }
  ];
  inEachMode = f: lib.concatMapStrings f modes;
}
