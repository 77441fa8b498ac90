# autoPatchelfHook in nixpkgs' place, natively and in a cross build; and patchEnvironment.
support: flake:
let
  inherit (support)
    check
    greet
    inEachMode
    lib
    logOfFailure
    logOfSuccess
    package
    pkgs
    wave
    ;
  dropIn = pkgs.extend flake.overlays.dropIn;

  # A program and a library as a vendor ships them: without run paths, and with an
  # interpreter that is not there.
  shipped = ''
    mkdir -p $out/bin $out/lib
    echo 'int greet(void); int own(void) { return greet(); }' > own.c
    echo 'int own(void); int main(void) { return own() == 7 ? 0 : 1; }' > main.c
    $CC -shared -fPIC -Wl,-soname,libown.so -o $out/lib/libown.so own.c "$greet/lib/libgreet.so.1"
    $CC -Wl,--dynamic-linker=/vendor/ld.so -o $out/bin/program main.c $out/lib/libown.so -Wl,--allow-shlib-undefined
  '';
  built =
    args:
    package (
      {
        pname = "shipped";
        nativeBuildInputs = [ dropIn.autoPatchelfHook ];
        buildInputs = [ greet ];
        inherit greet;
        build = shipped;
      }
      // support.whole
      // args
    );
  interpreterIs = file: bintools: ''
    same "interpreter of ${file}" \
      "$(readelf -lW ${file} | sed -n 's/.*interpreter: \(.*\)\]$/\1/p')" "$(< ${bintools}/nix-support/dynamic-linker)"
  '';
  isRight = bintools: built: greet: ''
    ${interpreterIs "${built}/bin/program" bintools}
    runPathIs ${built}/bin/program ${built}/lib
    runPathIs ${built}/lib/libown.so ${greet}/lib
  '';
  # As under stdenvNoCC.
  without = {
    preFixup = "unset NIX_BINTOOLS";
  };

  otherBintools = package {
    pname = "other-bintools";
    dontFixup = true;
    build = ''
      mkdir -p $out/nix-support $out/lib
      cp $(< ${dropIn.bintools}/nix-support/dynamic-linker) $out/lib/ld-linux-other.so.2
      echo $out/lib/ld-linux-other.so.2 > $out/nix-support/dynamic-linker
      cp ${dropIn.bintools}/nix-support/orig-libc $out/nix-support/
    '';
  };

  other = if pkgs.stdenv.hostPlatform.isAarch64 then "gnu64" else "aarch64-multiplatform";
  cross = pkgs.pkgsCross.${other}.extend flake.overlays.dropIn;
  crossGreet = cross.stdenv.mkDerivation {
    name = "cross-greet";
    dontUnpack = true;
    dontFixup = true;
    installPhase = ''
      mkdir -p $out/lib
      echo 'int greet(void) { return 7; }' > greet.c
      $CC -shared -fPIC -Wl,-soname,libgreet.so.1 -o $out/lib/libgreet.so.1 greet.c
    '';
  };
  crossBuilt =
    args:
    cross.callPackage (
      {
        stdenv,
        autoPatchelfHook,
        autoAddDriverRunpath,
        cudaRunpathHook,
      }:
      stdenv.mkDerivation (
        {
          name = "cross-shipped";
          dontUnpack = true;
          # A package of the build machine's beside it, which must not be taken.
          depsBuildBuild = [ pkgs.stdenv.cc ];
          nativeBuildInputs =
            if args.together or false then
              [
                cudaRunpathHook
                autoPatchelfHook
              ]
            else
              [ autoPatchelfHook ];
          buildInputs = [ crossGreet ];
          greet = crossGreet;
          cudaCompat = "";
          installPhase = shipped;
        }
        // removeAttrs args [ "together" ]
      )
    ) { };
  crossBintools = cross.buildPackages.bintools;

  # A package of the CUDA toolkit, and a program that opens its libraries by name.
  toolkit = package {
    pname = "libnvrtc";
    dontFixup = true;
    build = ''
      mkdir -p $out/lib
      for name in libnvrtc.so.12 libcublasLt.so.12; do
        $CC -shared -nostdlib -xc -Wl,-soname,$name -o $out/lib/$name /dev/null
      done
    '';
  };
  opening =
    args:
    package (
      {
        pname = "opening";
        buildInputs = [ toolkit ];
        cudaCompat = "";
        cudaOpened = true;
        build = ''
          mkdir -p $out/bin
          cat > main.c <<'END'
          #include <dlfcn.h>
          const char *const names[] = { "libnvrtc.so.12", "libcublasLt.so.12", "libnccl.so.2" };
          int main(void) { return dlopen(names[0], RTLD_NOW) ? 0 : 1; }
          END
          $CC -o $out/bin/program main.c -ldl
        '';
      }
      // args
    );

  environment = flake.lib.patchEnvironment {
    pkgs = pkgs // {
      pythonManylinuxPackages.manylinux2014 = [
        pkgs.glibc
        greet
      ];
      zlib = wave;
    };
  };
  alone = flake.lib.patchEnvironment {
    libraries = [ wave ];
    paths = [ "node_modules" ];
  };
  shell = pkgs.mkShell { inherit (environment) shellHook; };
in
{
  # Libraries of CUDA's that a program opens by name, where an input has them.
  openedByName = check "opened-by-name" (
    inEachMode (
      mode:
      let
        patched = opening (mode // { nativeBuildInputs = [ dropIn.autoPatchelfHook ]; });
        noted = opening (mode // { nativeBuildInputs = [ dropIn.cudaRunpathHook ]; });
        both = opening (
          mode
          // {
            nativeBuildInputs = [ dropIn.cudaRunpathHook ];
            cudaRunpathAutoPatchelf = true;
            # The stand-in's C library is not the one that the program gets without one.
            dontNoRunpathAmbiguity = true;
          }
        );
        off = opening (
          mode
          // {
            nativeBuildInputs = [ dropIn.cudaRunpathHook ];
            cudaOpened = false;
          }
        );
        found = "libnvrtc.so.12 is opened by name: ${toolkit} is added, a package of";
      in
      ''
        runPathIs ${patched}/bin/program ${toolkit}/lib
        ${patched}/bin/program
        contains "log" "$(< ${logOfSuccess patched})" "${found} $(($(stat -c %s ${toolkit}/lib/* | tr '\n' +)0)) bytes"

        # What the other hooks leave to autoPatchelf is said, and the setting that does it.
        runPathIs ${noted}/bin/program /run/opengl-driver/lib
        contains "log" "$(< ${logOfSuccess noted})" "${found}"
        contains "log" "$(< ${logOfSuccess noted})" "cudaRunpathAutoPatchelf = true"

        runPathIs ${both}/bin/program /run/opengl-driver/lib:${toolkit}/lib
        lacks "log" "$(< ${logOfSuccess both})" "cudaRunpathAutoPatchelf = true"
        runPathIs ${off}/bin/program /run/opengl-driver/lib
        lacks "log" "$(< ${logOfSuccess off})" "opened by name"
      ''
    )
  );

  # The interpreter and the C library are those of the environment, else the hook's own.
  autoPatchelfBintools = check "auto-patchelf-bintools" (
    inEachMode (
      mode:
      isRight dropIn.bintools (built mode) greet
      + isRight dropIn.bintools (built (mode // without)) greet
      # cudaRunpathHook brings none, so that no build has a linker for its sake.
      + ''
        contains "log" "$(< ${
          logOfFailure (
            built (
              mode
              // without
              // {
                nativeBuildInputs = [ dropIn.cudaRunpathHook ];
                cudaRunpathAutoPatchelf = true;
                cudaCompat = "";
              }
            )
          )
        })" 'nothing says which interpreter and C library programs get: $NIX_BINTOOLS is not set. Add autoPatchelfHook'
      ''
    )
    + ''
      ${built { }}/bin/program || complain "the program does not run"
      runPathIs ${built { autoPatchelfRelativeRpaths = true; }}/bin/program '$ORIGIN/../lib'
    ''
  );

  # stdenv's audit of run paths runs before autoPatchelf, which may bring the build's
  # directory in: by a library that stands there.
  autoPatchelfTemporary = check "auto-patchelf-temporary" (
    inEachMode (
      mode:
      let
        args = mode // {
          preFixup = "mkdir -p here; mv $out/lib/libown.so here/; addAutoPatchelfSearchPath $PWD/here";
        };
      in
      ''
        contains "log" "$(< ${logOfFailure (built args)})" "/here, in a build directory: it is gone after the build"
        contains "run path" "$(runPath ${built (args // { noAuditTmpdir = true; })}/bin/program)" /here
      ''
    )
  );

  # nixpkgs' function adds each setting to a global array, which packages fill in their phases.
  autoPatchelfArrays = check "auto-patchelf-arrays" (
    inEachMode (mode: ''
      built=${
        built (
          mode
          // {
            pname = "with-arrays";
            build = shipped + ''
              echo 'int nowhere(void) { return 1; }' > nowhere.c
              $CC -shared -fPIC -Wl,-soname,libnowhere.so.3 -o libnowhere.so nowhere.c
              $CC -Wl,--no-as-needed -o $out/bin/needs main.c $out/lib/libown.so ./libnowhere.so -Wl,--allow-shlib-undefined
            '';
            appendRunpaths = [ "/said" ];
            postInstall = ''
              ignoreMissingDepsArray+=(libnowhere.so.3)
              appendRunpathsArray+=(/filled)
              runtimeDependenciesArray+=(${wave})
            '';
          }
        )
      }
      runPathIs $built/bin/needs ${wave}/lib:$built/lib:/filled:/said
      text=$(readelf -dW ${
        built (
          mode
          // {
            pname = "with-flags";
            preFixup = ''
              autoPatchelfFlagsArray+=(--relativize-rpath)
              patchelfFlagsArray=(--force-rpath)
            '';
          }
        )
      }/bin/program)
      contains "tag" "$text" '(RPATH)'
      contains "flags" "$text" '[$ORIGIN/../lib]'
    '')
  );

  # The program is in PATH, as with nixpkgs' hook, and reads its command line.
  autoPatchelfInPath = check "auto-patchelf-path" (
    inEachMode (
      mode:
      isRight dropIn.bintools (built (
        mode
        // {
          dontAutoPatchelf = true;
          postFixup = "auto-patchelf --path $out --lib $greet/lib --run --app";
        }
      )) greet
    )
  );

  # Arguments of nixpkgs' hook that people override.
  autoPatchelfOverride = check "auto-patchelf-override" ''
    ${interpreterIs "${
      built (
        without
        // {
          nativeBuildInputs = [
            (dropIn.autoPatchelfHook.override {
              bintools = otherBintools;
              auto-patchelf = pkgs.patchelf;
            })
          ];
        }
      )
    }/bin/program" otherBintools}
    runPathIs ${
      built {
        nativeBuildInputs = [ (dropIn.autoPatchelfHook.override (old: { inherit (old) auto-patchelf bintools; })) ];
      }
    }/lib/libown.so ${greet}/lib
  '';

  # In a cross build, those of the machine that the files are for.
  autoPatchelfCross = check "auto-patchelf-cross" (
    inEachMode (
      mode:
      isRight crossBintools (crossBuilt mode) crossGreet
      + isRight crossBintools (crossBuilt (mode // without)) crossGreet
      + (
        let
          together = crossBuilt (mode // without // { together = true; });
        in
        interpreterIs "${together}/bin/program" crossBintools
        + ''
          runPathIs ${together}/bin/program ${support.driver}:${together}/lib
          runPathIs ${together}/lib/libown.so ${support.driver}:${crossGreet}/lib
        ''
      )
    )
  );

  # A development shell for what another package manager installed: at the first entry its
  # libraries become loadable, at the second nothing is written, and it can be undone.
  patchEnvironmentShell = check "patch-environment" ''
    # A compiler that is called by its path, without its setup hook, obeys only these.
    export NIX_DONT_SET_RPATH_${pkgs.stdenv.cc.suffixSalt}=1 NIX_NO_SELF_RPATH_${pkgs.stdenv.cc.suffixSalt}=1
    mkdir -p project/.venv/lib/python3/site-packages/ext project/.venv/bin project/node_modules/addon/build project/src
    cd project
    echo '#include <dlfcn.h>
    #include <stdio.h>
    int main(int n, char **a) { for (int i = 1; i < n; i++) if (!dlopen(a[i], RTLD_NOW)) { puts(dlerror()); return 1; } return 0; }' > load.c
    echo 'int greet(void), other(void); int ext(void) { return greet() + other(); }' > ext.c
    echo 'int other(void) { return 1; }' > other.c
    echo 'int wave(void); int addon(void) { return wave(); }' > addon.c
    at=.venv/lib/python3/site-packages/ext
    ${pkgs.stdenv.cc}/bin/cc -o load load.c -ldl
    ${pkgs.stdenv.cc}/bin/cc -shared -fPIC -Wl,-soname,libother.so -o $at/libother.so other.c -Wl,-rpath,/gone
    ${pkgs.stdenv.cc}/bin/cc -shared -fPIC -o $at/_ext.so ext.c $at/libother.so ${greet}/lib/libgreet.so.1 '-Wl,-rpath,$ORIGIN'
    ${pkgs.stdenv.cc}/bin/cc -shared -fPIC -o node_modules/addon/build/addon.node addon.c ${wave}/lib/libwave.so.1
    cp node_modules/addon/build/addon.node src/mine.node
    files=(./$at/_ext.so ./node_modules/addon/build/addon.node)
    # The Python of the environment, a program of a wheel whose loader is not here, and a script.
    loader=$(< ${pkgs.bintools}/nix-support/dynamic-linker)
    echo 'int main(void) { return 0; }' > main.c
    ${pkgs.stdenv.cc}/bin/cc -o ../python main.c -Wl,--dynamic-linker=$loader
    ln -s ../../../python .venv/bin/python
    ${pkgs.stdenv.cc}/bin/cc -o .venv/bin/tool main.c -Wl,--dynamic-linker=/none/ld.so
    echo 'lib = ctypes.CDLL("libnvidia-ml.so.1")' > $at/nvml.py
    # Nix cannot be asked in a build. Its roots are made before the first edit, which begins with a record.
    mkdir nix
    printf '%s\n' "#!${pkgs.bash}/bin/bash" 'ln -sfn "$2" "$4"' \
      'echo "$4: $2: $(echo "''${4%/*}"*.autopatchelf.json)" >> ../roots' > nix/nix-store
    chmod +x nix/nix-store
    export PATH=$PWD/nix:$PATH
    state() { find . -printf '%p %i %s %T@ %C@ %m\n' | sort; }
    list() { find . -type f -name '*.node' -o -type f -name '*.so' | sort | while read -r f; do echo "$f [$(runPath "$f")]"; done; }
    enter() { ${pkgs.bash}/bin/bash -euc "$1" > ../said 2>&1 || complain "the shell's hook fails: $(< ../said)"; }
    hook=${lib.escapeShellArg shell.shellHook}

    before=$(list)
    for file in "''${files[@]}"; do
      if ./load "$file"; then complain "$file can be loaded before"; fi
    done
    enter "$hook"
    same "what the first entry says" "$(< ../said)" ""
    holds "after the first entry" ./load "''${files[@]}"
    runPathIs $at/_ext.so '${support.driver}:$ORIGIN:${greet}/lib'
    runPathIs node_modules/addon/build/addon.node ${support.driver}:${wave}/lib
    runPathIs src/mine.node ""
    holds "the program of a wheel, with the loader of the Python" .venv/bin/tool
    contains "the script" "$(< $at/nvml.py)" '"${support.driver}/libnvidia-ml.so.1"'
    list=$(readlink .venv/.patch-environment)
    same "the list" "$(< $list)" "$(printf '%s\n' ${greet}/lib ${wave}/lib)"
    same "when the roots are made" "$(< ../roots)" \
      "$(printf '%s\n' ".venv/.patch-environment: $list: .venv*.autopatchelf.json" "node_modules/.patch-environment: $list: node_modules*.autopatchelf.json")"
    entered=$(state)
    enter "$hook"
    same "what the second entry says" "$(< ../said)" ""
    same "what the second entry wrote" "$(state)" "$entered"
    ${environment}/bin/patch-environment --undo > ../said 2>&1 || complain "--undo: $(< ../said)"
    same "after --undo" "$(list)" "$before"
    contains "--undo, of what stays changed" "$(< ../said)" "$at/nvml.py"
    holds "no roots stay" [ -z "$(find . -name .patch-environment)" ]
    for file in "''${files[@]}"; do
      if ./load "$file"; then complain "$file can be loaded after --undo"; fi
    done
    holds "no records stay" [ -z "$(find . -name '*.autopatchelf.json')" ]

    # Values of options are no paths, and what is named is all that is edited.
    mkdir ../more
    cp ${wave}/lib/libwave.so.1 ../more/
    before=$(cd ../more; state)
    ${environment}/bin/patch-environment --libs=$PWD/../more > ../said 2>&1 || complain "--libs: $(< ../said)"
    same "the directory of --libs" "$(cd ../more; state)" "$before"
    holds "after a run with --libs" ./load "''${files[@]}"
    ${environment}/bin/patch-environment --undo > ../said 2>&1 || complain "--undo: $(< ../said)"
    ${environment}/bin/patch-environment --libs=$PWD/../more .venv > ../said 2>&1 || complain ".venv alone: $(< ../said)"
    holds "the one that is named" ./load "''${files[0]}"
    if ./load "''${files[1]}"; then complain "the other one is edited too"; fi
    # Of the usual ones, --undo takes those that have a record.
    ${environment}/bin/patch-environment --undo > ../said 2>&1 || complain "--undo of one: $(< ../said)"
    if ${environment}/bin/patch-environment --undo > ../said 2>&1; then complain "--undo of nothing succeeds"; fi
    contains "--undo of nothing" "$(< ../said)" ".venv: nothing to undo: no record mentions it"

    # A library that a process has mapped stays what it was to that process.
    exec 3< $at/_ext.so
    before=$(sha256sum <&3)
    exec 3< $at/_ext.so
    enter "$hook"
    same "what the entry says" "$(< ../said)" ""
    same "the file that was open" "$(sha256sum <&3)" "$before"
    exec 3<&-
    holds "after the entry" ./load "''${files[@]}"

    # With other libraries all begins anew, and the first ones are kept until then.
    : > ../roots
    ${alone}/bin/patch-environment > ../said 2>&1 || complain "other libraries: $(< ../said)"
    same "the other list" "$(< node_modules/.patch-environment)" ${wave}/lib
    same "when it is kept" "$(< ../roots)" \
      "node_modules/.patch-environment: $(readlink node_modules/.patch-environment): node_modules.autopatchelf.json"
    holds "with other libraries" ./load "''${files[@]}"
    ${environment}/bin/patch-environment --undo > ../said 2>&1 || complain "--undo: $(< ../said)"

    # An environment that is not there yet, and one that lacks a library.
    rm -rf .venv node_modules
    entered=$(state)
    enter "$hook"
    same "what an entry without an environment wrote" "$(state)" "$entered"
    mkdir .venv
    echo 'int gone(void); int x(void) { return gone(); }' > x.c
    echo 'int gone(void) { return 1; }' > gone.c
    ${pkgs.stdenv.cc}/bin/cc -shared -fPIC -Wl,-soname,libgone.so.9 -o ../libgone.so.9 gone.c
    ${pkgs.stdenv.cc}/bin/cc -shared -fPIC -o .venv/x.so x.c ../libgone.so.9
    enter "$hook"
    contains "what an entry says" "$(< ../said)" "libgone.so.9 is missing, which .venv/x.so needs"
    cd ..
  '';
}
