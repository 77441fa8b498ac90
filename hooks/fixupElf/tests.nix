# fixupElfHook: what stdenv does to ELF files is done in one walk, with stdenv's result.
support:
let
  inherit (support)
    check
    compiled
    greet
    inEachMode
    installCompiled
    lib
    logOfFailure
    logOfSuccess
    ours
    package
    pkgs
    stubs
    wave
    ;

  # Notes each call.
  countingPatchelf = package {
    pname = "counting-patchelf";
    dontFixup = true;
    build = ''
      mkdir -p $out/bin
      cat > $out/bin/patchelf <<'END'
      #!${pkgs.bash}/bin/bash
      echo "$*" >> "''${NIX_BUILD_TOP:-/tmp}/calls"
      exec ${pkgs.patchelf}/bin/patchelf "$@"
      END
      chmod +x $out/bin/patchelf
    '';
  };

  # Run paths of which a part is used, a wrapper script, and an entry that postFixup adds.
  built =
    args:
    package (
      {
        pname = "shrinks";
        outputs = [
          "out"
          "lib"
        ];
        nativeBuildInputs = [ ours.fixupElfHook ];
        build = ''
          mkdir -p $lib/lib $out/bin
          ${installCompiled}
          mv $out/lib/libuse.so $lib/lib
          patchelf --set-rpath ${wave}/lib:${stubs}:${greet}/lib:$lib/lib:/none $out/bin/program $lib/lib/libuse.so
          printf '#!/bin/sh\nexec %s\n' $out/bin/.wrapper-wrapped > $out/bin/wrapper
          cp $out/bin/program $out/bin/.wrapper-wrapped
        '';
      }
      // support.whole
      // args
    );
  shrunk = "${stubs}:${greet}/lib";
  unshrunk = package: "${wave}/lib:${shrunk}:${package.lib}/lib:/none";
  refers = {
    pname = "refers";
    preFixup = ''
      sed -i "2i export X=$TMPDIR/x" $out/bin/wrapper
      mkdir $TMPDIR/lib
      cp ${greet}/lib/libgreet.so.1 $TMPDIR/lib
      patchelf --set-rpath $TMPDIR/lib:${stubs} $out/bin/program
    '';
  };
in
{
  fixupElfShrinks = check "fixup-elf-shrinks" (
    inEachMode (
      mode:
      let
        ours' = built mode;
        theirs = built (mode // { nativeBuildInputs = [ ]; });
        off = built (mode // { dontPatchELF = true; });
        later = built (mode // { postFixup = "patchelf --add-rpath /opt/plugins $out/bin/program"; });
        own = built (mode // { preFixup = "patchELF() { patchelf --set-rpath /mine $lib/lib/libuse.so; }"; });
      in
      ''
        for package in ${ours'} ${theirs}; do
          runPathIs $package/bin/program ${shrunk}
        done
        for library in ${ours'.lib} ${theirs.lib}; do
          runPathIs $library/lib/libuse.so ${shrunk}
        done
        runPathIs ${off}/bin/program ${unshrunk off}
        runPathIs ${later}/bin/program ${shrunk}:/opt/plugins
        runPathIs ${own.lib}/lib/libuse.so /mine
        log=$(< ${logOfSuccess (built mode)})
        contains log "$log" "shrinking the run paths of ELF files in"
        contains log "$log" ", and looking for references to"
        lacks log "$log" "checking for references to"
        lacks log "$log" "shrinking RPATHs"
      ''
    )
  );

  # No patchelf is started, also where another one brings stdenv's functions behind the hook.
  fixupElfStartsNoPatchelf = check "fixup-elf-starts-no-patchelf" (
    lib.concatMapStrings (
      { hook, calls }:
      let
        counted = built {
          nativeBuildInputs = [ countingPatchelf ] ++ hook ++ [ secondPatchelf ];
          build = ''
            mkdir -p $lib/lib $out
            cp -r ${compiled}/. $out/
            chmod -R u+w $out
          '';
          postFixup = "wc -l $NIX_BUILD_TOP/calls | sed 's/ .*//' > $lib/calls || true";
        };
        secondPatchelf = support.hookOf "patchELF() { patchelf --shrink-rpath $lib/lib/libuse.so; }";
      in
      ''
        same "whether patchelf is started" "$( [[ $(< ${counted.lib}/calls) ]] && echo yes)" "${calls}"
      ''
    ) (
      [
        {
          hook = [ ours.fixupElfHook ];
          calls = "";
        }
        {
          hook = [ ];
          calls = "yes";
        }
      ]
    )
  );

  fixupElfAudits = check "fixup-elf-audits" (
    inEachMode (mode: ''
      log=$(< ${logOfFailure (built (mode // refers))})
      contains log "$log" "/bin/wrapper:2: forbidden reference to"
      contains log "$log" "/bin/program: forbidden reference to"
      log=$(< ${logOfFailure (built (mode // refers // { dontPatchELF = true; }))})
      contains log "$log" "/bin/program: forbidden reference to"
      log=$(< ${logOfFailure (built (mode // refers // { nativeBuildInputs = [ ]; }))})
      contains log "$log" "forbidden reference to"
      log=$(< ${logOfSuccess (built (mode // refers // { noAuditTmpdir = true; }))})
      lacks log "$log" "forbidden"
    '')
  );

  # Where stdenv has resolution notes, they are written in our walk; where it has none, there are none.
  fixupElfNotes = check "fixup-elf-notes" (
    inEachMode (
      mode:
      let
        withStdenvs =
          args:
          built (
            mode
            // {
              postInstall = ''
                _registerGenerateLDCache() { postFixupHooks+=(_generateLDCacheAllOutputs); }
                _generateLDCacheAllOutputs() { mkdir $out/by-stdenv; }
                preFixupHooks+=(_registerGenerateLDCache)
              '';
            }
            // args
          );
        notes = built: "$(readelf -SW ${built}/bin/program | grep -c '\\.note\\.nixos\\.ldcache')";
      in
      ''
        same "notes" "${notes (withStdenvs { })}" 1
        same "stdenv's hook ran" "$(find ${withStdenvs { }} -name by-stdenv)" ""
        same "notes, switched off" "${notes (withStdenvs { dontGenerateLDCache = true; })}" 0
        same "notes, where stdenv has none" "${notes (built mode)}" 0
      ''
    )
  );
}
