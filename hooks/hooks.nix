# The hooks of one CUDA set: the shim that they share, and a line that says what each one brings. The
# interface of shim and program is described in pkg/cli/hook/doc.go.
{
  lib,
  makeSetupHook,
  writeText,
  hostPlatform,
  targetPlatform,
  # The tools, for the machine that builds.
  cuda-runpath,
  # The compat package, for the machine that the edited files are for; null: there is
  # none; { unknown = WHY; }: there may be one.
  cuda_compat,
  # The GPUs that the CUDA set builds for, as the tool takes them: "8.0 9.0+PTX"; "": not known.
  # Only the hooks that need them depend on them: nixpkgs' users narrow the list.
  cudaCapabilities ? "",
  # For that machine; null: the standard environment's, which is there anyway.
  bintools ? null,
  # nixpkgs', for that machine; null: nixpkgs has none.
  addDriverRunpath,
  # More of cudaRunpathHook's attributes.
  passthru ? { },
}:
let
  # Of the interface.
  interface = 1;

  # Where no file that is built can be an ELF file, as on Darwin, the hooks are there and
  # do nothing, as nixpkgs' do: packages list them without asking for the platform.
  hasELF = hostPlatform.isLinux || targetPlatform.isLinux;

  # The program under nixpkgs' name, which nixpkgs' own autoPatchelfHook calls through PATH: so no
  # hook brings it but ours of that name.
  autoPatchelfOf = lib.getOutput "autoPatchelf";

  # The link that nixpkgs' package puts into files. What its derivation says counts, since
  # overlays change that by overrideAttrs, and passthru stays behind.
  linkOf = package: package.drvAttrs.driverLink or package.driverLink or null;
  # The links that the tools choose by themselves, by the file's machine.
  isUsual =
    link:
    builtins.elem link [
      null
      "/run/opengl-driver"
      "/run/opengl-driver-32"
    ];

  # The text of FILE, without its comments.
  textOf =
    file:
    lib.concatMapStrings
      (line: if builtins.isList line || builtins.match "( *#.*)?" line != null then "" else line + "\n")
      (builtins.split "\n" (builtins.readFile file));
  # Functions, which an older version of the interface that is sourced later does not replace.
  functions =
    file:
    let
      version = "cudaRunpathPart_${lib.removeSuffix ".bash" (baseNameOf file)}";
    in
    ''
      if ((''${${version}:-0} < ${toString interface})); then
      declare -g ${version}=${toString interface}
      ${textOf file}fi
    '';
  # A hook is overridden as nixpkgs' hook of the same name is, with that one's arguments.
  hook =
    {
      name,
      description,
      # TOOLs that run at the end of fixup.
      runs ? [ ],
      # More that it brings (KEY=VALUE), beside the compat directory.
      brings ? _: [ ],
      usesCompat ? builtins.elem "addCudaCompatRunpath" runs,
      # For the places of stubs alone.
      compatForStubs ? false,
      # Files of functions; and what is run where the hook is sourced.
      parts ? [ ],
      text ? _: "",
      # More arguments for override, and what is made of all.
      arguments ? { },
      propagated ? _: [ ],
      passthru ? { },
    }:
    lib.makeOverridable (
      {
        cuda-runpath,
        cuda_compat,
        addDriverRunpath,
        bintools ? null,
        autoFixElfFiles ? null,
        getRunpathEntries ? null,
        auto-patchelf ? null,
      }@given:
      let
        driverLink = linkOf given.addDriverRunpath;
        # With allowUnsupportedSystem, what cannot be built here is available all the same.
        available =
          cuda_compat != null
          && !(cuda_compat ? unknown)
          && cuda_compat.meta.available or true
          && !(cuda_compat.meta.unsupported or false);
        tools = lib.getOutput "tools" cuda-runpath;
        given' =
          map (tool: "tool=${tool}") runs
          ++ lib.optional (!isUsual driverLink) "link=${driverLink}"
          ++ lib.optionals usesCompat (
            lib.optional available "compat=${cuda_compat}/compat"
            ++ lib.optional (cuda_compat ? unknown) "compat-unknown=${cuda_compat.unknown}"
          )
          ++ lib.optional (compatForStubs && available) "stubs-compat=${cuda_compat}/compat"
          ++ brings given;
        shim = ''
          # shellcheck shell=bash
          # Made by hooks.nix of https://github.com/cuda-runpath/cuda-runpath
        ''
        + lib.concatMapStrings functions ([ ./core.bash ] ++ parts)
        + "cudaRunpathBring ${
          lib.escapeShellArgs ([ (cuda-runpath.version or "0") "${tools}" ] ++ given')
        }\n"
        + text given;
      in
      lib.warnIf (auto-patchelf != arguments.auto-patchelf or null)
        "${name}: the argument auto-patchelf is not used: cuda-runpath is what patches; override that"
        (
          makeSetupHook {
            inherit name;
            # The programs are in PATH, for whoever debugs a package in its shell.
            propagatedBuildInputs = lib.optional hasELF tools ++ propagated given;
            passthru = lib.optionalAttrs usesCompat { enableHook = available; } // passthru;
            meta = {
              inherit description;
              license = lib.licenses.mit;
              # Whoever opens the pull request to nixpkgs (nix/upstream).
              maintainers = [ ];
            };
          } (writeText "${name}.bash" (if hasELF then shim else "addDriverRunpath() { :; }\n"))
        )
    ) ({ inherit cuda-runpath cuda_compat addDriverRunpath; } // arguments);

  plain = {
    stubReplace = {
      name = "stubReplace-hook";
      description = "Takes stub directories out of the run paths of all outputs and asks for the GPU driver's";
      runs = [ "stubReplace" ];
      parts = [ ./checkPhases.bash ];
    };

    autoAddDriverRunpath = {
      name = "autoAddDriverRunpath-hook";
      description = "Puts the GPU driver's directory into the run paths of all outputs";
      runs = [ "autoAddDriverRunpath" ];
      parts = [ ./addDriverRunpath.bash ];
    };

    addCudaCompatRunpath = {
      name = "addCudaCompatRunpath-hook";
      description = "Puts cuda_compat's directory in front of the run paths of all outputs";
      runs = [ "addCudaCompatRunpath" ];
    };

    noRunpathAmbiguity = {
      name = "noRunpathAmbiguity-hook";
      description = "Fails the build where the order of a run path decides which library is loaded";
      runs = [ "noRunpathAmbiguity" ];
    };

    cudaCapabilitiesCheck = {
      name = "cudaCapabilitiesCheck-hook";
      description = "Fails the build where outputs have no code for a GPU that the CUDA set is for";
      runs = [ "cudaCapabilitiesCheck" ];
      brings = _: [ "gpus=${cudaCapabilities}" ];
    };

    thinCuda = {
      name = "thinCuda-hook";
      description = "Takes the code for other GPUs than those of the CUDA set out of all outputs";
      runs = [ "thinCuda" ];
      brings = _: [ "gpus=${cudaCapabilities}" ];
    };

    # Brings the first four, and what a package asks for by a setting.
    cudaRunpathHook = {
      name = "cudaRunpath-hook";
      description = "Makes the run paths of all outputs right for CUDA: no stubs, the driver's directory, cuda_compat's, and nothing ambiguous";
      runs = [
        "stubReplace"
        "autoAddDriverRunpath"
        "addCudaCompatRunpath"
        "noRunpathAmbiguity"
      ];
      brings = _: [ "settings=" ];
      parts = [
        ./checkPhases.bash
        ./addDriverRunpath.bash
      ];
      # Its functions have the names of nixpkgs', which a package may have beside this.
      text = _: ''
        if [[ -n ''${cudaRunpathAutoPatchelf-} ]] && ! declare -F autoPatchelf >/dev/null; then
        ${textOf ./autoPatchelf.bash}fi
      '';
      inherit passthru;
    };

    # nixpkgs' hook of this name, with its functions and settings.
    autoPatchelfHook = {
      name = "auto-patchelf-hook";
      description = "Makes prebuilt programs and libraries find the libraries that they need";
      # bintools says which interpreter and which C library programs get, where the standard
      # environment (stdenvNoCC) does not. It is propagated, as nixpkgs' hook does, so that
      # its name in the text makes no closure larger; so is the program `auto-patchelf`.
      arguments = {
        inherit bintools;
        auto-patchelf = autoPatchelfOf cuda-runpath;
      };
      brings = given: lib.optional (given.bintools != null) "bintools=${given.bintools}";
      parts = [ ./autoPatchelf.bash ];
      propagated =
        given:
        [ (autoPatchelfOf given.cuda-runpath) ]
        ++ lib.optional (given.bintools != null) given.bintools;
    };

    # Only the shell function, for packages that call it in their own phases.
    addDriverRunpath = {
      name = "addDriverRunpath-hook";
      description = "A shell function that puts the GPU driver's directory into the run path of a file";
      parts = [ ./addDriverRunpath.bash ];
      passthru.driverLink =
        if linkOf addDriverRunpath != null then
          linkOf addDriverRunpath
        else
          "/run/opengl-driver" + lib.optionalString (hostPlatform.isi686 or false) "-32";
    };
  };
in
builtins.mapAttrs (_: hook) plain
// {
  # For hooks of other packages (fixupElf/package.nix).
  inherit hook;
  # For overlays.dropIn: the hooks under nixpkgs' names, which nixpkgs looks for, with the
  # shell functions that nixpkgs' bring.
  dropIn =
    {
      autoFixElfFiles,
      # null: nixpkgs has none.
      getRunpathEntries ? null,
    }:
    {
      autoAddDriverRunpath = hook {
        name = "auto-add-driver-runpath-hook";
        inherit (plain.autoAddDriverRunpath) description;
        parts = [
          ./addDriverRunpath.bash
          ./dropIn/standIn.bash
        ];
        text = _: "cudaRunpathStandIn addDriverRunpath\n";
        arguments = { inherit autoFixElfFiles; };
        propagated = given: [ given.autoFixElfFiles ];
      };
      autoAddCudaCompatRunpath = hook {
        name = "auto-add-cuda-compat-runpath-hook";
        inherit (plain.addCudaCompatRunpath) description;
        usesCompat = true;
        parts = [
          ./dropIn/addCudaCompatRunpath.bash
          ./dropIn/standIn.bash
        ];
        text = _: "cudaRunpathStandIn addCudaCompatRunpath\n";
        arguments = { inherit autoFixElfFiles; };
        propagated = given: [ given.autoFixElfFiles ];
      };
      removeStubsFromRunpathHook = hook {
        name = "removeStubsFromRunpathHook";
        inherit (plain.stubReplace) description;
        compatForStubs = true;
        parts = [
          ./checkPhases.bash
          ./dropIn/removeStubsFromRunpath.bash
          ./dropIn/standIn.bash
        ];
        text = _: textOf ./dropIn/removeStubsFromRunpathHook.bash;
        arguments = { inherit autoFixElfFiles getRunpathEntries; };
        propagated =
          given:
          lib.optional (given.getRunpathEntries != null) given.getRunpathEntries
          ++ [ given.autoFixElfFiles ];
      };
    };
}
