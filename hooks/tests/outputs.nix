# Which files the hooks look at: all outputs, whatever they are called, and in them
# every ELF file and nothing else.
support:
let
  inherit (support)
    allHooks
    check
    compat
    compiled
    driver
    greet
    hooks
    inEachMode
    inNormalForm
    installCompiled
    lib
    package
    pkgs
    stubs
    ;

  # An output is a shell variable, and these are words that a hook is tempted to use
  # for its own. (Not "output": nixpkgs' fixupPhase has that one itself.)
  outputNames = [
    "out"
    "bin"
    "lib"
    "dev"
    "stubs"
    "static"
    "file"
    "files"
    "tool"
    "args"
    "status"
    "name"
    "entry"
  ];

  manyOutputs =
    mode:
    package (
      {
        pname = "many-outputs";
        outputs = outputNames;
        nativeBuildInputs = allHooks;
        build = ''
          for each in ${toString outputNames}; do
            mkdir -p ''${!each}/lib
            cp ${compiled}/lib/libuse.so ''${!each}/lib/libuse.so
            chmod u+w ''${!each}/lib/libuse.so
          done
        '';
      }
      // mode
    );

  debuggable =
    mode:
    package (
      {
        pname = "debuggable";
        separateDebugInfo = true;
        nativeBuildInputs = allHooks;
        build = ''
          mkdir -p $out/lib
          echo 'int cuInit(unsigned); int use(void) { return cuInit(0); }' > use.c
          $CC -shared -fPIC -o $out/lib/libuse.so use.c \
            -L${stubs} -lcuda -Wl,-rpath,${stubs}
        '';
      }
      // support.whole
      // mode
    );

  linkedOutput = package {
    pname = "linked-output";
    outputs = [
      "out"
      "lib"
    ];
    nativeBuildInputs = allHooks;
    outputLib = "out";
    dontPatchELF = true;
    dontStrip = true;
    build = installCompiled + ''
      ln -s ${compiled} $lib
    '';
  };

  # The output is the library, not a directory that holds it.
  fileAsOutput = package {
    pname = "file-as-output";
    nativeBuildInputs = allHooks;
    outputs = [
      "out"
      "lib"
    ];
    build = installCompiled + ''
      mv $out/lib/libuse.so $lib
    '';
  };

  # All that may stand beside an ELF file that is to be edited.
  odds = package {
    pname = "odds";
    nativeBuildInputs = allHooks;
    dontStrip = true;
    dontCheckForBrokenSymlinks = true;
    buildInputs = [ (pkgs.glibc.static or null) ];
    build = installCompiled + ''
      echo 'int main(void) { return 0; }' > main.c
      $CC -static -o $out/bin/static main.c
      $CC -c -o $out/lib/object.o main.c
      ar rc $out/lib/libobjects.a $out/lib/object.o
      printf '#!/bin/sh\necho hello\n' > $out/bin/script
      chmod +x $out/bin/script
      printf '\177EL' > $out/lib/short
      : > $out/lib/empty
      mkdir -p $out/share
      ln $out/lib/libuse.so $out/lib/hard-linked.so
      ln -s libuse.so $out/lib/libuse.so.link
      ln -s ${compiled}/lib/libuse.so $out/lib/elsewhere.so
      ln -s nowhere $out/lib/dangling
      # Not called .so, not executable: ELF is told by its magic.
      cp $out/lib/libuse.so $out/lib/addon.node
      cp $out/lib/libuse.so $out/lib/libuse.so.1.2
      chmod -x $out/lib/addon.node $out/lib/libuse.so.1.2
      mkdir "$out/lib/with space" $out/lib/-
      cp $out/lib/libuse.so "$out/lib/with space/lib use.so"
      cp $out/lib/libuse.so $out/lib/-/--json
      mkdir -p $out/original
      for each in static; do cp $out/bin/$each $out/original; done
      cp $out/lib/object.o $out/lib/libobjects.a $out/bin/script $out/original
    '';
  };

  # CUDA plugins are often found beside their program, through $ORIGIN.
  plugins = package {
    pname = "plugins";
    dontStrip = false;
    nativeBuildInputs = allHooks;
    build = ''
      mkdir -p $out/lib/plugins $out/bin
      echo 'int cuInit(unsigned); int plugin(void) { return cuInit(0); }' > plugin.c
      $CC -shared -fPIC -o $out/lib/plugins/plugin.so plugin.c -L${stubs} -lcuda \
        '-Wl,-rpath,$ORIGIN/..:${stubs}:$ORIGIN/../$LIB:''${ORIGIN}/../nvrtc:$ORIGIN/$PLATFORM'
    '';
  };

  # What a wheel of a CUDA library unpacks to: extension modules, libraries with
  # mangled names, most of them without .so at the end, found by $ORIGIN.
  wheel = package {
    pname = "wheel";
    dontStrip = false;
    nativeBuildInputs = [
      pkgs.autoPatchelfHook
      hooks.cudaRunpathHook
    ];
    buildInputs = [ greet ];
    autoPatchelfIgnoreMissingDeps = [ "libcuda.so.1" ];
    dontAutoPatchelf = true;
    build = ''
      site=$out/lib/python3.12/site-packages
      mkdir -p $site/torchlike/lib $site/torchlike.libs $site/torchlike-1.0.dist-info
      echo 'int helper(void) { return 1; }' > helper.c
      $CC -shared -fPIC -Wl,-soname,libhelper-1a2b3c4d.so.1 -o $site/torchlike.libs/libhelper-1a2b3c4d.so.1 helper.c
      echo 'int helper(void); int cuInit(unsigned); int PyInit__C(void) { return cuInit(0) + helper(); }' > ext.c
      $CC -shared -fPIC -o $site/torchlike/_C.cpython-312-x86_64-linux-gnu.so ext.c \
        $site/torchlike.libs/libhelper-1a2b3c4d.so.1 -L${stubs} -lcuda \
        '-Wl,-rpath,$ORIGIN/lib:$ORIGIN/../torchlike.libs:${stubs}'
      cp ${compiled}/lib/libuse.so $site/torchlike/lib/libtorchlike_framework.so.2
      chmod u+w $site/torchlike/lib/libtorchlike_framework.so.2
      touch $site/torchlike/__init__.py $site/torchlike-1.0.dist-info/RECORD
    '';
  };

  # Someone took the write permission away again after fixup had given it.
  readOnly = package {
    pname = "read-only";
    nativeBuildInputs = allHooks;
    build = installCompiled;
    postFixup = ''
      chmod -R a-w $out
      chmod 0500 $out/bin/program
      if [[ -w $out/bin/program ]]; then
        echo "this build runs as a user to whom permissions mean nothing: it shows nothing" >&2
      fi
    '';
  };
in
{
  manyOutputsWhateverTheirNames = check "many-outputs" (
    inEachMode (
      mode:
      lib.concatMapStrings (output: ''
        runPathIs ${(manyOutputs mode).${output}}/lib/libuse.so ${inNormalForm}
      '') outputNames
    )
  );

  separateDebugInfo = check "separate-debug-info" (
    inEachMode (mode: ''
      runPathIs ${debuggable mode}/lib/libuse.so ${compat}:${driver}
      id=$(readelf -n ${debuggable mode}/lib/libuse.so | sed -n 's/.*Build ID: //p')
      debug=${(debuggable mode).debug}/lib/debug/.build-id/''${id:0:2}/''${id:2}.debug
      holds "there is a debug file" test -f "$debug"
      lacks "sections of the debug file" "$(readelf -SW "$debug" | grep ' .dynamic ')" PROGBITS
      same "build ID of the debug file" "$(readelf -n "$debug" 2>/dev/null | sed -n 's/.*Build ID: //p')" "$id"
      # The tool leaves it alone: a second look has nothing to do either.
      same "files it would edit" \
        "$(autoAddDriverRunpath --dry-run --json ${(debuggable mode).debug} | jq '[.files[] | select(.action == "edited")] | length')" 0
    '')
  );

  anOutputThatIsALinkIsSkipped = check "linked-output" ''
    runPathIs ${linkedOutput}/bin/program ${inNormalForm}
    same "the link" "$(readlink ${linkedOutput.lib})" ${compiled}
    runPathIs ${compiled}/bin/program ${stubs}:${greet}/lib
  '';

  anOutputThatIsAFileIsEdited = check "file-as-output" ''
    holds "it is a file" test -f ${fileAsOutput.lib}
    runPathIs ${fileAsOutput.lib} ${inNormalForm}
    runPathIs ${fileAsOutput}/bin/program ${inNormalForm}
  '';

  otherFilesAreLeftAlone = check "other-files" ''
    for file in lib/libuse.so lib/hard-linked.so lib/addon.node lib/libuse.so.1.2 \
      "lib/with space/lib use.so" lib/-/--json bin/program; do
      runPathIs "${odds}/$file" ${inNormalForm}
    done
    same "hard links are one file" \
      "$(stat -c %i ${odds}/lib/libuse.so)" "$(stat -c %i ${odds}/lib/hard-linked.so)"
    same "symbolic link" "$(readlink ${odds}/lib/libuse.so.link)" libuse.so
    same "link elsewhere" "$(readlink ${odds}/lib/elsewhere.so)" ${compiled}/lib/libuse.so
    same "dangling link" "$(readlink ${odds}/lib/dangling)" nowhere
    unchanged ${odds}/bin/static ${odds}/original/static
    unchanged ${odds}/bin/script ${odds}/original/script
    unchanged ${odds}/lib/object.o ${odds}/original/object.o
    unchanged ${odds}/lib/libobjects.a ${odds}/original/libobjects.a
    holds "the static program runs" ${odds}/bin/static
    same "permissions" "$(stat -c %A ${odds}/lib/addon.node ${odds}/bin/program | tr -d 'w\n')" -r--r--r---r-xr-xr-x
  '';

  originOfPluginsStays = check "origin" ''
    runPathIs ${plugins}/lib/plugins/plugin.so \
      '${compat}:${driver}:$ORIGIN/..:$ORIGIN/../$LIB:''${ORIGIN}/../nvrtc:$ORIGIN/$PLATFORM'
  '';

  wheel = check "wheel" ''
    site=${wheel}/lib/python3.12/site-packages
    runPathIs $site/torchlike/_C.cpython-312-x86_64-linux-gnu.so '${compat}:${driver}:$ORIGIN/lib:$ORIGIN/../torchlike.libs'
    runPathIs $site/torchlike/lib/libtorchlike_framework.so.2 ${inNormalForm}
    runPathIs $site/torchlike.libs/libhelper-1a2b3c4d.so.1 ${compat}:${driver}
  '';

  readOnlyFilesAndDirectories = check "read-only" ''
    runPathIs ${readOnly}/bin/program ${inNormalForm}
    runPathIs ${readOnly}/lib/libuse.so ${inNormalForm}
  '';

  # What is right already is not written: a second run of all tools finds nothing.
  aSecondRunChangesNothing = check "second-run" ''
    cp -r ${odds} again
    chmod -R u+w again
    find again -type f -exec sha256sum {} + | sort > before
    for tool in stubReplace autoAddDriverRunpath addCudaCompatRunpath; do
      $tool --json --compat ${compat} again > report
      same "files that $tool edits again" "$(jq '[.files[] | select(.action == "edited")] | length' report)" 0
    done
    find again -type f -exec sha256sum {} + | sort > after
    unchanged after before
  '';
}
