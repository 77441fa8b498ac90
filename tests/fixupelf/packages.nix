# Packages that are built twice, with stdenv's own steps and with fixupElfHook: see run.
{
  # nixpkgs, or what stands for it.
  nixpkgs,
  # A static runpath of this repository.
  runpath,
  # Debian packages whose trees are wrapped as packages.
  debian ? [ ],
  # Only these.
  only ? null,
}:
let
  pkgs = nixpkgs.extend (import ../../nix/overlays.nix).default;
  inherit (pkgs) lib stdenv;

  # Built by Go's own cache instead of in Nix.
  program = stdenv.mkDerivation {
    name = "prebuilt";
    dontUnpack = true;
    dontFixup = true;
    installPhase = ''
      mkdir -p $out/bin
      cp ${
        builtins.path {
          path = runpath;
          name = "runpath";
        }
      } $out/bin/runpath
      for name in autoPatchelf auto-patchelf stubReplace autoAddDriverRunpath noRunpathAmbiguity; do
        ln -s runpath $out/bin/$name
      done
    '';
  };
  ours = hook: hook.override { cuda-runpath = program; };
  hook = ours pkgs.fixupElfHook;
  autoPatchelf = ours pkgs.cudaRunpath.autoPatchelfHook;
  driver = ours pkgs.cudaRunpath.autoAddDriverRunpath;

  bare = {
    NIX_DONT_SET_RPATH = "1";
    NIX_NO_SELF_RPATH = "1";
  };
  library =
    name:
    stdenv.mkDerivation {
      inherit name;
      dontUnpack = true;
      dontFixup = true;
      env = bare;
      installPhase = ''
        mkdir -p $out/lib
        echo 'int ${name}(void) { return 7; }' > ${name}.c
        $CC -shared -fPIC -Wl,-soname,lib${name}.so -o $out/lib/lib${name}.so ${name}.c
      '';
    };
  one = library "one";
  two = library "two";
  # A linker script where a library is looked for, and a library for another machine.
  script = stdenv.mkDerivation {
    name = "script";
    dontUnpack = true;
    dontFixup = true;
    installPhase = "mkdir -p $out/lib; echo 'INPUT(libtwo.so)' > $out/lib/libtwo.so";
  };
  other = stdenv.mkDerivation {
    name = "other";
    dontUnpack = true;
    dontFixup = true;
    installPhase = ''
      mkdir -p $out/lib
      cp ${one}/lib/libone.so $out/lib/
      printf '\267' | dd of=$out/lib/libone.so bs=1 seek=18 conv=notrunc
    '';
  };

  compile = flags: ''
    mkdir -p $out/bin $out/lib
    echo 'int one(void), two(void); int use(void) { return one() + two(); }' > use.c
    echo 'int use(void); int main(void) { return use() - 14; }' > main.c
    flags="-L${one}/lib -lone -L${two}/lib -ltwo -Wl,--enable-new-dtags ${flags}"
    $CC -shared -fPIC -o $out/lib/libuse.so use.c $flags
    $CC -o $out/bin/program main.c use.c $flags
  '';
  # The usual one: a part of it is of use.
  usual = "-Wl,-rpath,/none:${two}/lib:${other}/lib:${one}/lib:$out/lib:${one}/lib";
  plain = compile usual;
  withRunPath = list: compile "-Wl,-rpath,${list}";
  # As makeWrapper leaves it.
  wrapped = text: ''
    mv $out/bin/program $out/bin/.program-wrapped
    printf '#!/bin/sh\n%s\nexec %s "$@"\n' "${text}" $out/bin/.program-wrapped > $out/bin/program
    chmod +x $out/bin/program
  '';

  # Compiled once: where it is compiled is in it, and so in the build ID.
  withDebugInfo = stdenv.mkDerivation {
    name = "with-debug-info";
    dontUnpack = true;
    dontFixup = true;
    env = bare;
    installPhase = withRunPath "/none:${one}/lib:${two}/lib -g -Wl,--build-id";
  };

  scenarios = {
    usual = { };
    strict = {
      strictDeps = true;
    };
    structured = {
      strictDeps = true;
      __structuredAttrs = true;
    };
    oldTag.build = compile "-Wl,--disable-new-dtags ${usual}";
    oldTagRight.build = compile "-Wl,--disable-new-dtags -Wl,-rpath,${one}/lib:${two}/lib";
    nothingOfUse.build = withRunPath "/none:$out/lib";
    allOfUse.build = withRunPath "${two}/lib:${one}/lib";
    origin.build = withRunPath "\\$ORIGIN/../lib:/none:\\$ORIGIN:${one}/lib:\\$ORIGIN/x";
    relative.build = withRunPath "lib:${one}/lib:./x:${two}/lib:/none";
    empty.build = withRunPath ":${one}/lib::${two}/lib:";
    slashes.build = withRunPath "${one}/lib/:${one}/lib//:${two}/./lib:/none/";
    twice.build = withRunPath "${one}/lib:${two}/lib:${one}/lib:${two}/lib";
    otherMachine.build = withRunPath "${other}/lib:${one}/lib:${two}/lib";
    shadowed.build = withRunPath "$out/lib:${one}/lib:${two}/lib" + ''
      cp ${two}/lib/libtwo.so $out/lib
    '';
    noRunPath.build = compile "";
    ownLibrary.build = withRunPath "${one}/lib:$out/lib" + ''
      cp ${two}/lib/libtwo.so $out/lib
    '';
    static.build = ''
      mkdir -p $out/bin $out/lib
      echo 'int main(void) { return 0; }' > main.c
      $CC -static -o $out/bin/static main.c
      $CC -c -o $out/lib/main.o main.c
      $AR rcs $out/lib/libmain.a $out/lib/main.o
    '';
    staticPIE.build = ''
      mkdir -p $out/bin
      echo 'int main(void) { return 0; }' > main.c
      $CC -static-pie -o $out/bin/static main.c -Wl,-rpath,/none || $CC -static -o $out/bin/static main.c
    '';
    outputs = {
      outputs = [
        "out"
        "lib"
        "dev"
      ];
      build = plain + ''
        mkdir -p $lib/lib $dev/include
        mv $out/lib/libuse.so $lib/lib/
        rmdir $out/lib
        echo '/* */' > $dev/include/use.h
      '';
    };
    linkedOutput = {
      outputs = [
        "out"
        "lib"
      ];
      build = plain + "ln -s ${one} $lib\n";
    };
    fileOutput.build = ''
      echo 'int two(void); int one(void) { return two(); }' > one.c
      $CC -shared -fPIC -o $out one.c -L${two}/lib -ltwo -Wl,-rpath,/none:${two}/lib
    '';
    debugInfo = {
      separateDebugInfo = true;
      build = "cp -r ${withDebugInfo} $out; chmod -R u+w $out\n";
    };
    hardLinks.build = plain + ''
      ln $out/lib/libuse.so $out/lib/again.so
      ln -s libuse.so $out/lib/libuse.so.1
    '';
    buildID.build = plain + ''
      mkdir -p $out/lib/.build-id
      cp $out/lib/libuse.so $out/lib/.build-id/libuse.so
      cp $out/lib/libuse.so $out/lib/libmy.build-id.so
    '';
    readOnly.build = plain + "chmod -R a-w $out\n";
    noBits.build = plain + "chmod 0644 $out/bin/program; chmod 0755 $out/lib/libuse.so\n";
    broken.build = plain + ''
      head -c 100 $out/lib/libuse.so > $out/lib/libcut.so
      head -c 3000 $out/lib/libuse.so > $out/lib/libcut2.so
      printf '\177ELF' > $out/lib/libmagic.so
      : > $out/lib/libempty.so
      printf '\177EL' > $out/lib/libthree.so
    '';
    otherFiles.build = plain + ''
      mkdir -p $out/share/man/man1 $out/share/doc
      echo '.TH x 1' > $out/share/man/man1/program.1
      printf '#!/usr/bin/env bash\n' > $out/bin/script
      chmod +x $out/bin/script
      mkfifo $out/share/doc/x && rm $out/share/doc/x
      ln -s /nowhere $out/share/doc/nowhere
    '';
    notPatched = {
      dontPatchELF = true;
      build = plain;
    };
    notAudited = {
      noAuditTmpdir = true;
      build = withRunPath "$TMPDIR/lib:${one}/lib:$TMPDIR/../x" + wrapped "# $TMPDIR/x";
    };
    notAuditedNorPatched = {
      noAuditTmpdir = true;
      dontPatchELF = true;
      build = withRunPath "/x:${one}/lib";
    };
    notStripped = {
      dontStrip = true;
      build = plain;
    };
    notFixed = {
      dontFixup = true;
      build = plain;
    };
    auditedByShrinking.build = withRunPath "$TMPDIR/lib:${one}/lib:${two}/lib";
    nearTmpdir.build =
      withRunPath "\\$ORIGIN/..$TMPDIR/lib:${one}/lib" + wrapped "# $TMPDIR, and$TMPDIR-x";
    unwrapped.build = plain + ''
      echo "$TMPDIR/x" > $out/bin/.text-wrapped
      echo "$TMPDIR/x" > $out/bin/text
      printf '#!/bin/sh\n# %s/x\n' "$TMPDIR" > $out/bin/script
    '';
    wrapper.build = plain + wrapped "export X=/opt/x";
    postFixupAdds = {
      build = plain;
      postFixup = "patchelf --add-rpath /opt/plugins $out/bin/program";
    };
    postFixupReads = {
      build = plain;
      postFixup = "for f in $out/bin/program $out/lib/libuse.so; do patchelf --print-rpath $f; done > $out/lists";
    };
    postFixupRemoves = {
      build = plain;
      postFixup = "patchelf --remove-rpath $out/bin/program; patchelf --set-rpath ${two}/lib $out/lib/libuse.so";
    };
    byHand = {
      build = plain;
      dontPatchELF = true;
      postFixup = "patchELF $out/lib";
    };
    ownFunction = {
      build = plain;
      preFixup = "patchELF() { echo mine; }";
    };
    inPhases = {
      build = plain;
      preFixup = "dontPatchELF=1";
    };
    autoPatchelf = {
      nativeBuildInputs = [ autoPatchelf ];
      buildInputs = [
        one
        two
      ];
      build = compile "-Wl,-rpath,/none";
    };
    driver = {
      nativeBuildInputs = [ driver ];
      build = plain;
    };
    together = {
      nativeBuildInputs = [
        driver
        autoPatchelf
      ];
      buildInputs = [
        one
        two
      ];
      cudaResolutionNote = true;
      build = compile "-Wl,-rpath,/none";
    };
    many.build = plain + ''
      for ((i = 0; i < 60; i++)); do cp $out/lib/libuse.so $out/lib/lib$i.so; done
    '';
    # They fail.
    failsForElf.build = plain + ''
      cp -r ${one}/lib $TMPDIR/lib
      patchelf --set-rpath $TMPDIR/lib:${two}/lib $out/bin/program
    '';
    failsForOneOfTwo.build = withRunPath "\\$ORIGIN:${one}/lib" + ''
      cp -r ${two}/lib $TMPDIR/lib
      patchelf --set-rpath ${one}/lib:$TMPDIR/lib $out/bin/program
    '';
    failsForWrapper.build = plain + wrapped "export X=$TMPDIR/x";
  };

  wrap =
    name:
    let
      # The tree, with run paths of which a part is of use.
      tree = stdenv.mkDerivation {
        name = "tree";
        dontUnpack = true;
        dontFixup = true;
        installPhase = ''
          mkdir -p $out
          /usr/bin/dpkg-query -L ${name} | while read -r file; do
            if [[ -f $file && -r $file ]]; then printf '%s\n' "''${file#/}"; fi
          done | tar -C / --ignore-failed-read --mode=u-s,g-s -cf - -T - | tar -C $out -xf -
          if [[ -d $out/usr ]]; then cp -a $out/usr/. $out/; rm -rf $out/usr; fi
          chmod -R u+rw,a+r $out
          find $out -xtype l -delete # to other packages
          find $out -type f -print0 | while IFS= read -r -d "" file; do
            # A static-PIE program, of which the hook says that it leaves it, does not start with a run path.
            if isELF "$file" && [[ $(patchelf --print-needed "$file" 2>/dev/null) ]]; then
              patchelf --set-rpath "/none:\$ORIGIN/../lib:/usr/lib/x86_64-linux-gnu:${one}/lib:/lib/x86_64-linux-gnu" \
                "$file" 2>/dev/null || true
            fi
          done
        '';
      };
    in
    {
      build = ''
        cp -r ${tree} $out
        chmod -R u+w $out
      '';
    };

  all =
    scenarios
    // builtins.listToAttrs (
      map (name: {
        name = "debian-${name}";
        value = wrap name;
      }) debian
    );
  built =
    hooks: name: args:
    stdenv.mkDerivation (
      {
        inherit name;
        dontUnpack = true;
        env = bare;
        nativeBuildInputs = (args.nativeBuildInputs or [ ]) ++ hooks;
        installPhase = args.build or plain;
      }
      // removeAttrs args [
        "build"
        "nativeBuildInputs"
      ]
    );
  chosen = if only == null then all else lib.genAttrs only (name: all.${name});
in
builtins.mapAttrs (name: args: {
  stdenv = built [ ] name args;
  hook = built [ hook ] name args;
}) chosen
