# The packages of one stage, by nixpkgs' names.
{
  lib,
  config,
  replace,
  shape,
  pkgs,
  build,
  host,
  target,
  buildPackages,
  targetPackages,
  extend,
  cross,
}:
let
  inherit (lib) optionalString;

  # A tool of the host, linked below the store.
  hostTools =
    name: tools:
    pkgs.runCommand name { } ''
      mkdir -p $out/bin
      for tool in ${toString tools}; do
        for directory in /usr/local/go/bin /usr/lib/go/bin /usr/local/bin /usr/bin /bin; do
          if [ -x $directory/$tool ]; then ln -s $directory/$tool $out/bin/$tool; break; fi
        done
      done
    ''
    // {
      meta.mainProgram = builtins.head tools;
    };

  # A derivation without a stdenv. Its last command is one of bash's own: else bash becomes
  # the program that is the last command, coreutils' programs close their output before they
  # exit, and Nix kills a builder whose output has ended (3 to 12 of 150, on a busy machine).
  bare =
    attrs: script:
    derivation (
      attrs
      // {
        inherit (build) system;
        builder = "/bin/bash";
        args = [
          "-e"
          "-c"
          (script + "\n:\n")
        ];
      }
    );

  triplet = platform: "${if platform.isAarch64 then "aarch64" else "x86_64"}-linux-gnu";
  prefix = optionalString (host.system != build.system) "${triplet host}-";
  # Of the variables that are meant for the wrapper of one platform's compiler.
  salt = builtins.replaceStrings [ "-" ] [ "_" ] host.config;
  # How nixpkgs splices: a package that callPackage hands out knows what it is on
  # the other platforms.
  splice =
    here: there:
    builtins.mapAttrs (
      n: v:
      if lib.isDerivation v && there ? ${n} then
        v
        // {
          __spliced = {
            buildBuild = there.${n};
            buildHost = there.${n};
            hostTarget = v;
            hostHost = v;
            targetTarget = v;
          };
        }
      else if builtins.isAttrs v && v.recurseForDerivations or false then
        splice v (there.${n} or { })
      else
        v
    ) here;
  scope = if host.system == build.system then pkgs else splice pkgs buildPackages;
in
{
  inherit
    lib
    config
    pkgs
    buildPackages
    targetPackages
    extend
    ;
  inherit (pkgs.stdenv) hostPlatform buildPlatform targetPlatform;
  pkgsBuildBuild = buildPackages.buildPackages;
  system = host.system;
  path = ./.;
  pkgsCross = {
    aarch64-multiplatform = cross "aarch64-linux";
    gnu64 = cross "x86_64-linux";
  };
  newScope = more: lib.callPackageWith (scope // more);
  callPackage = lib.callPackageWith scope;

  # ------------------------------------------------------------------ stdenv
  # The C library that the stage's programs run on.
  glibc = bare { name = "${prefix}glibc"; } (
    ''
      PATH=/usr/bin:/bin
      mkdir -p $out/lib
      for directory in /lib/${triplet host} /usr/${triplet host}/lib; do
        if [ -e $directory/libc.so.6 ]; then break; fi
      done
      for name in libc libm libdl libpthread librt libresolv libutil ld-linux; do
        cp -L $directory/$name[-.]*so.[0-9]* $out/lib/
      done
    ''
    + optionalString (host.system != build.system) ''
      # Debian's loader looks for the C library where Debian has it, which for another
      # machine is nowhere; nixpkgs' in its own directory. Nothing runs this one.
      loader=$(echo $out/lib/ld-linux*)
      echo "const char version[] = \"stable release version 2.36\", directories[] = \"$out/lib/\";" > $out/loader.c
      ${prefix}gcc -shared -nostdlib -fPIC -Wl,-soname,''${loader##*/} -o $loader $out/loader.c
      rm $out/loader.c
    ''
  );
  # The linker of the stage's compilers, and which interpreter and C library it links
  # programs against. Not `binutils`, which is the tools that checks look at files with.
  bintools =
    bare
      {
        name = "${optionalString (target.system != host.system) "${triplet target}-"}bintools";
        inherit (targetPackages) glibc;
        hook = ./hooks/bintools.sh;
      }
      ''
        PATH=/usr/bin:/bin
        mkdir -p $out/nix-support
        echo $glibc > $out/nix-support/orig-libc
        echo $glibc/lib/ld-linux*.so.* > $out/nix-support/dynamic-linker
        sed "s|@out@|$out|g" $hook > $out/nix-support/setup-hook
      '';
  cc =
    (bare { name = "${prefix}cc"; } ''
      PATH=/usr/bin:/bin
      mkdir -p $out/bin $out/nix-support
      for name in cc gcc c++ g++; do
        case $name in cc) tool=gcc ;; c++) tool=g++ ;; *) tool=$name ;; esac
        sed -e "s|@compiler@|/usr/bin/${prefix}$tool|" -e "s|@store@|${builtins.storeDir}|" -e "s|@salt@|${salt}|" \
          ${./hooks/cc-wrapper.sh} > $out/bin/${prefix}$name
      done
      chmod +x $out/bin/*
      for name in ld ar ranlib strip objcopy readelf objdump nm; do
        ln -s /usr/bin/${prefix}$name $out/bin/${prefix}$name
      done
      sed -e "s|@prefix@|${prefix}|g" -e "s|@bintools@|${buildPackages.bintools}|g" -e "s|@salt@|${salt}|" ${./hooks/cc.sh} \
        > $out/nix-support/setup-hook
    '')
    // {
      targetPrefix = prefix;
      suffixSalt = salt;
      # The compiler itself, whose libraries programs need.
      cc = bare { name = "${prefix}gcc"; } ''
        PATH=/usr/bin:/bin
        mkdir -p $out/lib
      '';
    };
  stdenv = import ./stdenv {
    inherit
      lib
      replace
      build
      host
      target
      ;
    inherit (pkgs) cc;
  };
  stdenvNoCC = import ./stdenv {
    inherit
      lib
      replace
      build
      host
      target
      ;
    cc = null;
  };

  # ------------------------------------------------------- trivial builders
  testers = import ./testers.nix { inherit lib pkgs; };
  runCommand =
    name: attrs: script:
    pkgs.stdenvNoCC.mkDerivation (
      {
        inherit name;
        buildCommand = script;
      }
      // attrs
    );
  writeText =
    name: text:
    pkgs.runCommand name { inherit text; } ''
      printf '%s' "$text" > $out
    '';
  writeShellApplication =
    {
      name,
      text,
      runtimeInputs ? [ ],
      meta ? { },
    }:
    pkgs.runCommand name
      {
        script = ''
          #!/bin/bash
          set -o errexit -o nounset -o pipefail
          export PATH="${lib.concatMapStringsSep ":" (p: "${lib.getBin p}/bin") runtimeInputs}:$PATH"
          ${text}
        '';
        meta = {
          mainProgram = name;
        }
        // meta;
      }
      ''
          mkdir -p $out/bin
          printf '%s' "$script" > $out/bin/${name}
          chmod +x $out/bin/${name}
          bash -n $out/bin/${name}
        # nixpkgs has it always.
        if command -v shellcheck > /dev/null; then shellcheck $out/bin/${name}; fi
      '';
  linkFarm =
    name: entries:
    pkgs.runCommand name { } (
      ''
        mkdir -p $out
      ''
      + lib.concatMapStrings (n: ''
        mkdir -p "$(dirname $out/${n})"
        ln -s ${entries.${n}} $out/${n}
      '') (builtins.attrNames entries)
    );
  makeSetupHook =
    {
      name,
      propagatedBuildInputs ? [ ],
      propagatedNativeBuildInputs ? [ ],
      substitutions ? { },
      passthru ? { },
      meta ? { },
    }:
    script:
    pkgs.runCommand name
      (
        substitutions
        // {
          inherit
            propagatedBuildInputs
            propagatedNativeBuildInputs
            passthru
            meta
            ;
          strictDeps = true;
        }
      )
      ''
        mkdir -p $out/nix-support
        recordPropagatedDependencies
        substituteAll ${script} $out/nix-support/setup-hook
      '';
  mkShell =
    attrs:
    pkgs.stdenv.mkDerivation (
      {
        name = "nix-shell";
        nativeBuildInputs = attrs.packages or [ ];
        buildCommand = "export > $out";
      }
      // builtins.removeAttrs attrs [ "packages" ]
    );

  # -------------------------------------------------------------- host tools
  bash = hostTools "bash" [ "bash" ];
  coreutils = hostTools "coreutils" [
    "cat"
    "mkdir"
    "mv"
    "rm"
    "tee"
  ];
  binutils = hostTools "binutils" [ "readelf" ];
  patchelf = hostTools "patchelf" [ "patchelf" ];
  # As nixpkgs': a copy of each path of a package's closure that refers to a replaced one, with the new path's name in it.
  # The new ones' closures are gone through as well.
  replaceDependencies =
    {
      drv,
      replacements,
      cutoffPackages ? [ ],
      verbose ? true,
    }:
    let
      plain = path: builtins.unsafeDiscardStringContext (toString path);
      closure =
        package:
        import (
          pkgs.runCommand "closure.nix"
            {
              exportReferencesGraph = [
                "graph"
                package
              ];
            }
            ''
              echo '{' > $out
              while read -r path; do
                read -r _deriver
                read -r count
                echo "\"$path\" = [" >> $out
                for ((i = 0; i < count; i++)); do
                  read -r reference
                  if [[ $reference != "$path" ]]; then echo "\"$reference\"" >> $out; fi
                done
                echo '];' >> $out
              done < graph
              echo '}' >> $out
            ''
        );
      new = builtins.listToAttrs (
        map (r: {
          name = plain r.newDependency;
          value = "${r.newDependency}";
        }) replacements
      );
      replaced = builtins.listToAttrs (
        map (r: {
          name = plain r.oldDependency;
          value = plain r.newDependency;
        }) replacements
      );
      kept = map plain cutoffPackages;
      all = builtins.foldl' (all: package: all // closure package) { } (
        [ drv ] ++ map (r: r.newDependency) replacements
      );
      now = builtins.mapAttrs (
        path: references:
        let
          others = builtins.filter (reference: plain now.${reference} != reference) references;
          here = new.${path} or (builtins.appendContext path { ${path}.path = true; });
        in
        if replaced ? ${path} then
          now.${replaced.${path}}
        else if others == [ ] || builtins.elem path kept then
          here
        else
          pkgs.runCommand (builtins.substring 33 (-1) (baseNameOf path)) { nativeBuildInputs = [ pkgs.nix ]; } ''
            nix-store --dump ${here} | sed -e "s|${baseNameOf path}|''${out##*/}|g" ${
              toString (map (other: "-e 's|${baseNameOf other}|${baseNameOf "${now.${other}}"}|g'") others)
            } | nix-store --restore $out
          ''
      ) all;
    in
    now.${plain drv};
  python3 = hostTools "python3" [ "python3" ] // {
    sitePackages = "lib/python3/site-packages";
  };
  jq = hostTools "jq" [ "jq" ];
  gnugrep = hostTools "grep" [ "grep" ];
  gnused = hostTools "sed" [ "sed" ];
  git = hostTools "git" [ "git" ];
  nix = hostTools "nix" [
    "nix"
    "nix-build"
    "nix-store"
  ];
  shellcheck = hostTools "shellcheck" [ "shellcheck" ];
  uv = hostTools "uv" [ "uv" ];
  zlib = pkgs.runCommand "zlib" { } "mkdir -p $out/lib";
  # In nixpkgs these are some twenty packages.
  pythonManylinuxPackages.manylinux2014 = [
    pkgs.glibc
    pkgs.stdenv.cc.cc
  ];
  gopls = hostTools "gopls" [ "gopls" ];
  elfutils = hostTools "elfutils" [ "eu-elflint" ];
  nixfmt = hostTools "nixfmt" [ "nixfmt" ];
  cmake = pkgs.makeSetupHook {
    name = "cmake";
    substitutions.cmake = "${hostTools "cmake" [ "cmake" ]}/bin/cmake";
  } ./hooks/cmake.sh;

  # --------------------------------------------------------------------- Go
  go =
    hostTools "go" [
      "go"
      "gofmt"
    ]
    // {
      # At least: what there is, go.mod says.
      version = "1.25";
      GOOS = "linux";
      inherit (host.go) GOARCH;
      meta.platforms = lib.platforms.linux;
    };
  fetchFromGitHub = _: throw "the stand-in has no internet";
  nix-update-script = _: [ ];
  versionCheckHook = pkgs.makeSetupHook { name = "version-check-hook"; } ./hooks/version-check.sh;
  installShellFiles = pkgs.makeSetupHook {
    name = "install-shell-files-hook";
  } ./hooks/install-shell-files.sh;
  tzdata = pkgs.runCommand "tzdata" { } "mkdir -p $out/share/zoneinfo";
  nukeReferences = pkgs.runCommand "nuke-references" { } ''
    mkdir -p $out/bin
    cat > $out/bin/nuke-refs <<'END'
    #!/bin/bash
    LC_ALL=C exec sed -i -E 's|(${builtins.storeDir}/)[0-9a-z]{32}-|\1eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-|g' "$@"
    END
    chmod +x $out/bin/nuke-refs
  '';
  # Modules come by a fixed-output derivation, which Nix lets see GOPROXY and whose
  # hash it checks against vendorHash; the build proper has no network.
  buildGoModule =
    fnOrArgs:
    pkgs.stdenv.mkDerivation (
      finalAttrs:
      let
        args = if builtins.isFunction fnOrArgs then fnOrArgs finalAttrs else fnOrArgs;
        goModules = pkgs.stdenv.mkDerivation {
          name = "${finalAttrs.pname}-${finalAttrs.version}-go-modules";
          inherit (finalAttrs) src;
          postPatch = finalAttrs.postPatch or "";
          nativeBuildInputs = [ buildPackages.go ];
          impureEnvVars = [
            "GOPROXY"
            "GONOSUMDB"
            "GONOSUMCHECK"
            "GOFLAGS"
          ];
          GOTOOLCHAIN = "local";
          GOSUMDB = "off";
          buildPhase = ''
            export GOCACHE=$TMPDIR/go-cache GOPATH=$TMPDIR/go HOME=$TMPDIR
            go mod vendor
          '';
          installPhase = "cp -r vendor $out";
          postInstall = "chmod -R u+w $TMPDIR/go";
          dontFixup = true;
          outputHashMode = "recursive";
          outputHashAlgo = "sha256";
          outputHash = finalAttrs.vendorHash;
        };
      in
      args
      // {
        inherit goModules;
        nativeBuildInputs = [ buildPackages.go ] ++ args.nativeBuildInputs or [ ];
        strictDeps = true;
        env = {
          GOOS = "linux";
          inherit (host.go) GOARCH;
          GOTOOLCHAIN = "local";
          GOFLAGS = "-mod=vendor -trimpath";
        }
        // args.env or { };
        configurePhase = ''
          runHook preConfigure
          export GOCACHE=$TMPDIR/go-cache GOPATH=$TMPDIR/go HOME=$TMPDIR GOPROXY=off GOSUMDB=off
          rm -rf vendor
          cp -r $goModules vendor
          runHook postConfigure
        '';
        buildPhase = ''
          runHook preBuild
          mkdir -p $TMPDIR/go/bin
          # As nixos-25.11's: of an array the first alone.
          read -ra list <<<"$subPackages"
          list=("''${list[@]/#/./}")
          # nixpkgs' Go knows where its time zone data are.
          zones=$(go env GOROOT)/src/time/zoneinfo_unix.go
          sed 's|^var platformZoneSources = .*|&\n"${buildPackages.tzdata}/share/zoneinfo/",|' "$zones" > $TMPDIR/zoneinfo.go
          printf '{"Replace": {"%s": "%s"}}' "$zones" $TMPDIR/zoneinfo.go > $TMPDIR/overlay.json
          IFS=, eval 'joined="''${tags[*]}"'
          go build -tags "''${joined// /,}" -overlay $TMPDIR/overlay.json -p "$NIX_BUILD_CORES" -ldflags="''${ldflags[*]} -buildid=" -o $TMPDIR/go/bin/ "''${list[@]}"
          runHook postBuild
        '';
        installPhase = ''
          runHook preInstall
          mkdir -p $out
          cp -r $TMPDIR/go/bin $out/bin
          runHook postInstall
        '';
        doCheck = false;
        passthru = {
          inherit goModules;
        }
        // args.passthru or { };
      }
    );

  buildGo125Module = pkgs.buildGoModule;

  # ------------------------------------------------------------------ python
  python3Packages = {
    recurseForDerivations = true;
    pythonImportsCheckHook = pkgs.makeSetupHook {
      name = "python-imports-check-hook.sh";
    } ./hooks/python-imports-check.sh;
  };

  # -------------------------------------------------------------------- CUDA
  auto-patchelf = hostTools "auto-patchelf" [ "patchelf" ] // {
    pname = "auto-patchelf";
  };
  autoPatchelfHook = pkgs.makeSetupHook {
    name = "auto-patchelf-hook";
  } (replace.autoPatchelf or ./hooks/auto-patchelf.sh);
}
// import ./cuda.nix { inherit lib pkgs shape; }
