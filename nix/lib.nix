# What the flake offers as `lib`. `packagesFor SYSTEM` are this flake's packages,
# `pkgsFor SYSTEM` nixpkgs.
{
  packagesFor,
  pkgsFor,
  overlays,
}:
let
  # What looks at a set of packages: their names, and nixpkgs and the tools for who builds them.
  toolsFor =
    what: packages:
    let
      names = builtins.attrNames packages;
      first =
        if names == [ ] then
          throw "${what}: the set names no package to look at"
        else
          packages.${builtins.head names};
      system = (first.stdenv or { }).buildPlatform.system or first.system;
    in
    {
      inherit names;
      pkgs = pkgsFor system;
      tools = (packagesFor system).cuda-runpath;
    };
  # The paths of all outputs of a package.
  outputsOf = package: map (output: "${package.${output}}") (package.outputs or [ "out" ]);
in
rec {
  # auditPackages { NAME = package; … }
  #
  # A derivation with a summary of what the checks say of each package (all of its
  # outputs): $out/summary.json and $out/summary.txt. Its `reports.NAME` is one
  # derivation a package, so Nix's scheduler and remote builders share the work; each
  # has what noRunpathAmbiguity says (ambiguity.json, ambiguity.txt), what `runpath
  # audit` does (audit.json, audit.txt, audit.sarif, audit.html), and status: 1 where
  # one of them has findings, else 0. Findings do not fail the build.
  auditPackages = auditPackagesWith { };

  # The same with `flags` for both, and `failOnFindings`: the summary then fails to
  # build where a package has any.
  auditPackagesWith =
    {
      flags ? [ ],
      failOnFindings ? false,
    }:
    packages:
    let
      inherit (toolsFor "auditPackages" packages) names pkgs tools;
      inherit (pkgs) lib;
      reports = builtins.mapAttrs (
        name: package:
        pkgs.runCommand "runpath-audit-${name}"
          {
            paths = outputsOf package;
            flags = lib.escapeShellArgs flags;
            meta.description = "What is wrong with the run paths of ${name}";
          }
          ''
            mkdir -p $out
            result=0
            eval "flags=($flags)"
            # say NAME COMMAND…: the reports of one command; 2 and more is its own failure.
            say() {
              local name=$1 status=0
              shift
              set -- "$@" --jobs "$NIX_BUILD_CORES" "''${flags[@]}"
              "$@" $paths > $out/$name.txt 2>&1 || status=$?
              if ((status > 1)); then
                cat $out/$name.txt >&2
                exit $status
              fi
              "$@" --json $paths > $out/$name.json 2> /dev/null || ((status == $?))
              if ((status == 1)); then result=1; fi
            }
            say ambiguity ${tools}/bin/noRunpathAmbiguity --nix
            # The same on every builder, whatever its processor.
            say audit ${tools}/bin/runpath audit --nix --cpu baseline \
              --sarif $out/audit.sarif --html $out/audit.html
            echo $result > $out/status
          ''
      ) packages;
    in
    pkgs.runCommand "runpath-audit-summary"
      {
        nativeBuildInputs = [ pkgs.jq ];
        passthru = { inherit reports; };
      }
      (
        ''
          mkdir -p $out
          {
        ''
        + lib.concatMapStrings (name: ''
          read -r status < ${reports.${name}}/status
          jq --arg name ${lib.escapeShellArg name} --argjson status "$status" \
            '{name: $name, clean: ($status == 0), summary: .summary}' ${reports.${name}}/audit.json
        '') names
        + ''
          } | jq -s . > $out/summary.json
          jq -r '.[] | (if .clean then "clean    " else "FINDINGS " end) + .name' \
            $out/summary.json | tee $out/summary.txt
          found=$(jq '[.[] | select(.clean | not)] | length' $out/summary.json)
          echo "$found of ${toString (builtins.length names)} packages have findings" |
            tee -a $out/summary.txt
        ''
        + lib.optionalString failOnFindings ''
          ((found == 0))
        ''
      );

  # manifest { packages = { NAME = package; … }; }
  #
  # A derivation with what is in the packages, all of their outputs: $out/manifest.json, as
  # `runpath manifest` prints it, and $out/index.html, a page about the set. Its
  # `manifests.NAME` is one derivation a package, with manifest.json of that, so that Nix
  # builds them on many machines and, of a later set, only those of packages that changed.
  # `nix run .#diff-manifests` compares the sets of two commits.
  manifest =
    { packages }:
    let
      inherit (toolsFor "manifest" packages) names pkgs tools;
      manifests = builtins.mapAttrs (
        name: package:
        pkgs.runCommand "manifest-${name}"
          {
            __structuredAttrs = true;
            nativeBuildInputs = [ pkgs.jq ];
            paths = outputsOf package;
            # Of what each reference costs, the store in a build knows nothing else.
            exportReferencesGraph.closure = outputsOf package;
            meta.description = "What is in ${name}";
          }
          ''
            mkdir -p $out
            jq .closure "''${NIX_ATTRS_JSON_FILE:-$NIX_BUILD_TOP/.attrs.json}" > closure.json
            ${tools}/bin/runpath manifest --malformed warn --closure closure.json \
              --jobs "''${NIX_BUILD_CORES:-1}" "''${paths[@]}" > $out/manifest.json
          ''
      ) packages;
    in
    pkgs.runCommand "manifest"
      {
        files = map (name: "${manifests.${name}}/manifest.json") names;
        passthru = { inherit manifests; };
        meta.description = "What is in ${toString (builtins.length names)} packages";
      }
      ''
        mkdir -p $out
        ${tools}/bin/runpath manifest --html $out/index.html $files > $out/manifest.json
      '';

  # patchEnvironment { pkgs = …; }
  #
  # A program, patch-environment [FLAGS] [DIR…], that makes what another package manager
  # installed (.venv, node_modules) find libraries of Nix and the host's driver: autoPatchelf
  # with their directories built in, and `runpath scripts --fix`. Without a DIR it takes those
  # of `paths` that are there. Its `shellHook` does that in a development shell.
  # `patch-environment --undo` takes it back.
  patchEnvironment =
    {
      # nixpkgs, which has the libraries.
      pkgs ? pkgsFor (
        let
          first = builtins.head libraries;
        in
        (first.stdenv or { }).hostPlatform.system or first.system
      ),
      # In place of those of manylinux2014, and zlib.
      libraries ? null,
      paths ? [
        ".venv"
        "node_modules"
      ],
      # More flags of autoPatchelf.
      flags ? [ ],
      # Whether run paths, and scripts that open libraries of the driver, get the driver link.
      driver ? true,
    }:
    let
      inherit (pkgs) lib;
      list = import ./environment-libraries.nix (
        { inherit pkgs; } // lib.optionalAttrs (libraries != null) { inherit libraries; }
      );
      array = values: "(${lib.escapeShellArgs values})";
      program = pkgs.writeShellApplication {
        name = "patch-environment";
        runtimeInputs = [
          (lib.getOutput "tools" (packagesFor pkgs.stdenv.hostPlatform.system).cuda-runpath)
          pkgs.coreutils
          pkgs.gnugrep
        ];
        text = ''
          libraries=${list}
          elsewhere=${./environment-libraries.nix}
          store=${builtins.storeDir}
          usual=${array paths}
          given=${array (flags ++ lib.optional driver "--tool=autoAddDriverRunpath")}
          driver=${lib.optionalString driver "yes"}
          ${builtins.readFile ./patch-environment.bash}
        '';
        meta.description = "Makes what another package manager installed find libraries of Nix";
      };
    in
    program
    // {
      shellHook = ''
        ${program}/bin/patch-environment --quiet >/dev/null ||
          echo "patch-environment: see above" >&2
        ${lib.optionalString driver ''
          # Triton asks ldconfig for the driver otherwise.
          if [[ -z ''${TRITON_LIBCUDA_PATH-} && -e /run/opengl-driver/lib/libcuda.so.1 ]]; then
            export TRITON_LIBCUDA_PATH=/run/opengl-driver/lib
          fi
        ''}
      '';
    };

  # wrapWithHostDriver PACKAGE: the package with each program of its bin/ started by
  # `hostDriver run`, for hosts other than NixOS. Desktop entries, D-Bus services and
  # systemd units start the wrapped programs too. The rest is linked; outputs other than
  # "out" and "bin" are the package's own.
  wrapWithHostDriver =
    package:
    let
      system = (package.stdenv or { }).hostPlatform.system or package.system;
      pkgs = pkgsFor system;
      inherit (pkgs) lib;
      pname = package.pname or (builtins.parseDrvName package.name).name;
      version = package.version or (builtins.parseDrvName package.name).version;
      main = lib.unique [
        package.outputName or "out"
        "out"
        "bin"
      ];
      has = output: builtins.elem output (package.outputs or [ "out" ]);
      others = builtins.filter (output: !(builtins.elem output main)) (package.outputs or [ "out" ]);
      wrapped =
        pkgs.runCommand "${pname}-with-host-driver${lib.optionalString (version != "") "-${version}"}"
          {
            packages = lib.unique (
              map (output: "${package.${output}}") (builtins.filter has main) ++ [ "${lib.getBin package}" ]
            );
            hostDriver = lib.getOutput "hostDriver" (packagesFor system).cuda-runpath;
            inherit (pkgs.stdenv) shell;
            passthru = {
              unwrapped = package;
              inherit pname version;
            };
            meta = (package.meta or { }) // {
              # The programs' output is "out" here.
              outputsToInstall = [
                "out"
              ]
              ++ builtins.filter (output: builtins.elem output others) package.meta.outputsToInstall or [ ];
              description = "${pname}, with the host's GPU driver";
              mainProgram = package.meta.mainProgram or pname;
            };
          }
          (builtins.readFile ./wrap-with-host-driver.bash);
    in
    wrapped
    // lib.genAttrs others (output: package.${output})
    // lib.optionalAttrs (others != [ ]) { outputs = [ "out" ] ++ others; };

  # gpuImage SYSTEM ARGUMENTS: the arguments of dockerTools.buildLayeredImage, streamLayeredImage
  # or buildImage for an image whose programs find the driver where the runtime mounts it
  # (NVIDIA's container toolkit: in /usr/lib64), without a shell, with a read-only root and as
  # any user: `hostDriver run` is the entrypoint, before the image's own.
  gpuImage =
    system: arguments:
    let
      inherit (pkgsFor system) lib;
      config = arguments.config or { };
      own = config.Env or [ ];
      # What the toolkit is to mount, unless the image says.
      all = name: lib.optional (!builtins.any (lib.hasPrefix "${name}=") own) "${name}=all";
      hostDriver = lib.getOutput "hostDriver" (packagesFor system).cuda-runpath;
    in
    arguments
    // {
      config = config // {
        Entrypoint = [
          "${hostDriver}/bin/hostDriver"
          "run"
          "--"
        ]
        ++ config.Entrypoint or [ ];
        Env = all "NVIDIA_VISIBLE_DEVICES" ++ all "NVIDIA_DRIVER_CAPABILITIES" ++ own;
      };
    };

  # thinImage { image; gpus; }: the image of dockerTools.buildLayeredImage, buildImage or streamLayeredImage
  # with code for these GPUs alone. A layer in which nothing changes keeps its bytes. Store paths in it keep
  # their names and have another content than the one that Nix knows for them, so that nothing is to be
  # copied out of its store, and an image with a Nix database is refused.
  thinImage =
    {
      image,
      gpus,
      # More flags of runpath thin.
      flags ? [ ],
    }:
    let
      inherit (image) system;
      pkgs = pkgsFor system;
      inherit (pkgs) lib;
      end = if lib.hasSuffix ".gz" image.name then ".tar.gz" else ".tar";
      title = builtins.replaceStrings [ "/" ":" ] [ "-" "-" ] (image.imageName or "image");
    in
    pkgs.runCommand "${title}-thinned${end}"
      {
        nativeBuildInputs = [ (packagesFor system).cuda-runpath ];
        inherit image;
        # Packages hold files on purpose that cannot be read.
        thin = lib.escapeShellArgs (
          [
            "--malformed=warn"
            "--for=${builtins.concatStringsSep "," gpus}"
          ]
          ++ flags
        );
        passthru = {
          unthinned = image;
        }
        // lib.filterAttrs (name: _: name == "imageName" || name == "imageTag") image;
        meta.description = "A container image with code for some GPUs alone";
      }
      ''
        # What streamLayeredImage makes is a program that prints the image.
        if [[ -x $image ]]; then $image > image.tar; image=image.tar; fi
        eval "runpath thin $thin --image $out $image"
      '';

  # forGPUs GPUS PACKAGE: the package, and all that it refers to, with code for these GPUs alone, without a
  # rebuild: nixpkgs' replaceDependencies puts a thinned copy in the place of each store path in which there
  # is something to take out, and rewrites what refers to it. Which these are is read from the package's
  # closure, which is therefore built or fetched while Nix evaluates (import from derivation).
  forGPUs =
    gpus: package:
    let
      inherit (package) system;
      pkgs = pkgsFor system;
      inherit (pkgs) lib;
      tool = (packagesFor system).cuda-runpath;
      thin = "runpath thin --nix --malformed warn ${lib.escapeShellArg "--for=${builtins.concatStringsSep "," gpus}"}";
      paths = builtins.fromJSON (builtins.unsafeDiscardStringContext (builtins.readFile found));
      found =
        pkgs.runCommand "paths-with-gpu-code.json"
          {
            nativeBuildInputs = [
              tool
              pkgs.jq
            ];
            # Store paths a line, among derivers and numbers.
            exportReferencesGraph = [
              "graph"
              package
            ];
          }
          ''
            paths=$(grep "^$NIX_STORE/" graph | grep -v '[.]drv$' | sort -u)
            ${thin} --dry-run --json $paths > files.json
            jq --arg store "$NIX_STORE/" '[.files[] | select(.action == "edited").path |
              $store + (ltrimstr($store) | split("/")[0])] | unique' files.json > $out
          '';
      thinned =
        path:
        let
          # In pure evaluation, too: the path is one that Nix knows by now.
          old = builtins.appendContext path { ${path}.path = true; };
        in
        {
          oldDependency = old;
          # Its name is as long as the old one's, so that nothing moves where it is rewritten. What it says of itself
          # has to be its own: replaceDependencies would else go on with the old path.
          newDependency =
            pkgs.runCommand (builtins.substring 33 (-1) (baseNameOf path))
              {
                nativeBuildInputs = [
                  tool
                  (lib.getOutput "out" pkgs.nix)
                ];
                inherit old;
                preferLocalBuild = true;
              }
              ''
                nix-store --dump $old | sed "s|''${old##*/}|''${out##*/}|g" | nix-store --restore $out
                chmod -R u+w $out
                ${thin} $out
              '';
        };
    in
    if paths == [ ] then
      package
    else
      pkgs.replaceDependencies {
        drv = package;
        replacements = map thinned paths;
      };

  # dropInRebuilds SYSTEM, or PACKAGES: the attributes of this flake's nixpkgs, or of
  # packages with your own configuration, that overlays.dropIn changes, so that are built
  # anew. Looks at every top-level attribute, which takes as long as evaluating all of
  # nixpkgs does; what does not evaluate (unfree packages, by default) is left out.
  dropInRebuilds =
    systemOrPackages:
    let
      before = if builtins.isAttrs systemOrPackages then systemOrPackages else pkgsFor systemOrPackages;
      after = before.extend overlays.dropIn;
      path =
        set: name:
        let
          result = builtins.tryEval (
            if builtins.isAttrs set.${name} && set.${name}.type or "" == "derivation" then
              set.${name}.drvPath
            else
              null
          );
        in
        if result.success then result.value else null;
    in
    builtins.filter (
      name:
      let
        old = path before name;
      in
      old != null && path after name != old
    ) (builtins.attrNames before);
}
