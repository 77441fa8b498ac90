# stdenv.mkDerivation, with nixpkgs' attributes: dependencies by offset, outputs,
# finalAttrs and overrideAttrs, structured attributes, passthru and meta.
{
  lib,
  replace,
  build,
  host,
  target,
  cc,
}:
let
  setup = replace.setup or ./setup.sh;
  defaultHooks =
    replace.defaultHooks or [
      # nixpkgs' list, in its order; patchelf comes with the bootstrap stages, in front.
      ../hooks/patchelf.sh
      ../hooks/no-broken-symlinks.sh
      ../hooks/audit-tmpdir.sh
      ../hooks/compress-man-pages.sh
      ../hooks/make-symlinks-relative.sh
      ../hooks/move-docs.sh
      ../hooks/move-lib64.sh
      ../hooks/move-sbin.sh
      ../hooks/move-systemd-user-units.sh
      ../hooks/multiple-outputs.sh
      ../hooks/patch-shebangs.sh
      ../hooks/prune-libtool-files.sh
      ../hooks/reproducible-builds.sh
      ../hooks/set-source-date-epoch.sh
      ../hooks/strip.sh
    ];

  stdenv =
    derivation {
      name = "stdenv-linux";
      inherit (build) system;
      builder = "/bin/bash";
      args = [
        "-e"
        ./builder.sh
      ];
      inherit setup;
      shell = "/bin/bash";
      initialPath = "/usr /";
      defaultNativeBuildInputs = defaultHooks ++ lib.optional (cc != null) cc;
      defaultBuildInputs = [ ];
      preHook = "";
    }
    // {
      inherit cc;
      hasCC = cc != null;
      shell = "/bin/bash";
      buildPlatform = build;
      hostPlatform = host;
      targetPlatform = target;
      extraNativeBuildInputs = [ ];
      extraBuildInputs = [ ];
      extraSandboxProfile = "";
      __extraImpureHostDeps = [ ];
      inherit (host) isLinux isx86_64 isAarch64;
      inherit (host) system;
      mkDerivation = (replace.mkDerivation or (_: mkDerivation)) stdenv;
    };

  # A spliced package stands for itself on several platforms; the attribute it is
  # named in says which is meant.
  choose =
    which: deps:
    map (d: if lib.isDerivation d then lib.getDev (d.__spliced.${which} or d) else d) (
      lib.remove null (lib.flatten deps)
    );
  offsets = {
    depsBuildBuild = "buildBuild";
    depsBuildBuildPropagated = "buildBuild";
    nativeBuildInputs = "buildHost";
    propagatedNativeBuildInputs = "buildHost";
    depsBuildTarget = "buildTarget";
    depsBuildTargetPropagated = "buildTarget";
    depsHostHost = "hostHost";
    depsHostHostPropagated = "hostHost";
    buildInputs = "hostTarget";
    propagatedBuildInputs = "hostTarget";
    depsTargetTarget = "targetTarget";
    depsTargetTargetPropagated = "targetTarget";
  };

  make =
    attrs:
    let
      canCheck = build.canExecute host;
      structured = attrs.__structuredAttrs or false;
      separateDebugInfo = attrs.separateDebugInfo or false;
      doInstallCheck = (attrs.doInstallCheck or false) && canCheck;
      doCheck = (attrs.doCheck or false) && canCheck;
      inputs = attrs // {
        nativeBuildInputs =
          attrs.nativeBuildInputs or [ ]
          ++ lib.optional separateDebugInfo (replace.separateDebugInfo or ../hooks/separate-debug-info.sh)
          ++ lib.optionals doCheck (attrs.nativeCheckInputs or [ ])
          ++ lib.optionals doInstallCheck (attrs.nativeInstallCheckInputs or [ ]);
      };
      name =
        (attrs.name or "${attrs.pname}-${attrs.version}")
        + lib.optionalString (build.system != host.system && !(attrs ? outputHash)) "-${host.config}";
      env =
        (if attrs ? meta.mainProgram then { NIX_MAIN_PROGRAM = attrs.meta.mainProgram; } else { })
        // attrs.env or { };
    in
    builtins.removeAttrs attrs [
      "meta"
      "passthru"
      "env"
      "pos"
      "nativeCheckInputs"
      "nativeInstallCheckInputs"
    ]
    // builtins.mapAttrs (n: which: choose which (inputs.${n} or [ ])) offsets
    // (if structured then { inherit env; } else env)
    // {
      inherit
        name
        stdenv
        doCheck
        doInstallCheck
        ;
      inherit (build) system;
      builder = "/bin/bash";
      args =
        attrs.args or [
          "-e"
          ./source-stdenv.sh
          (attrs.builder or ./default-builder.sh)
        ];
      __structuredAttrs = structured;
      __ignoreNulls = true;
      strictDeps = attrs.strictDeps or (build.system != host.system);
      outputs = attrs.outputs or [ "out" ] ++ lib.optional separateDebugInfo "debug";
    };

  mkDerivation =
    fnOrAttrs:
    let
      f = if builtins.isFunction fnOrAttrs then fnOrAttrs else (_: fnOrAttrs);
      attrs = f (attrs // { finalPackage = package; });
      drv = derivation (make attrs);
      meta = {
        available = true;
        name = drv.name;
        # What a profile gets of the package.
        outputsToInstall = [
          (if builtins.elem "bin" drv.outputs then "bin" else builtins.head drv.outputs)
        ]
        ++ lib.optional (builtins.elem "man" drv.outputs) "man";
      }
      // attrs.meta or { };
      add =
        value:
        value
        // {
          inherit meta stdenv;
          passthru = attrs.passthru or { };
          overrideAttrs =
            g:
            mkDerivation (
              final:
              let
                prev = f final;
                g' = if builtins.isFunction g then g else (_: g);
                applied = g' final;
              in
              prev // (if builtins.isFunction applied then applied prev else g' prev)
            );
        }
        // (if attrs ? pname then { inherit (attrs) pname; } else { })
        // (if attrs ? version then { inherit (attrs) version; } else { })
        // attrs.passthru or { };
      outputs = lib.genAttrs drv.outputs (o: add drv.${o} // outputs // { outputSpecified = true; });
      package = add drv // outputs // { all = map (o: outputs.${o}) drv.outputs; };
    in
    package;
in
stdenv
