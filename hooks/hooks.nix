# The hooks of one CUDA set: each is its file, with the paths of what it sources and what it brings put
# in. The interface of core.bash and the program is described in pkg/cli/hook/doc.go.
{
  lib,
  makeSetupHook,
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
      # What makeSetupHook makes a hook of.
      file ? ./tool.bash,
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
        bring =
          map (tool: "tool=${tool}") runs
          ++ lib.optional (!isUsual driverLink) "link=${driverLink}"
          ++ lib.optionals usesCompat (
            lib.optional available "compat=${cuda_compat}/compat"
            ++ lib.optional (cuda_compat ? unknown) "compat-unknown=${cuda_compat.unknown}"
          )
          ++ lib.optional (compatForStubs && available) "stubs-compat=${cuda_compat}/compat"
          ++ brings given;
      in
      lib.warnIf (auto-patchelf != arguments.auto-patchelf or null)
        "${name}: the argument auto-patchelf is not used: cuda-runpath is what patches; override that"
        (
          makeSetupHook {
            inherit name;
            # The programs are in PATH, for whoever debugs a package in its shell.
            propagatedBuildInputs = lib.optional hasELF tools ++ propagated given;
            substitutions = lib.optionalAttrs hasELF {
              core = "${./core.bash}";
              autoPatchelf = "${./autoPatchelf.bash}";
              tools = "${tools}";
              release = cuda-runpath.version or "0";
              brings = lib.escapeShellArgs bring;
            };
            passthru = lib.optionalAttrs usesCompat { enableHook = available; } // passthru;
            meta = {
              inherit description;
              license = lib.licenses.mit;
              # Whoever opens the pull request to nixpkgs (nix/upstream).
              maintainers = [ ];
            };
          } (if hasELF then file else ./noELF.bash)
        )
    ) ({ inherit cuda-runpath cuda_compat addDriverRunpath; } // arguments);

  plain = {
    stubReplace = {
      name = "stubReplace-hook";
      description = "Takes stub directories out of the run paths of all outputs and asks for the GPU driver's";
      runs = [ "stubReplace" ];
    };

    autoAddDriverRunpath = {
      name = "autoAddDriverRunpath-hook";
      description = "Puts the GPU driver's directory into the run paths of all outputs";
      runs = [ "autoAddDriverRunpath" ];
      file = ./addDriverRunpath.bash;
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
      file = ./cudaRunpathHook.bash;
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
      file = ./autoPatchelfHook.bash;
      propagated =
        given:
        [ (autoPatchelfOf given.cuda-runpath) ]
        ++ lib.optional (given.bintools != null) given.bintools;
    };

    # Only the shell function, for packages that call it in their own phases.
    addDriverRunpath = {
      name = "addDriverRunpath-hook";
      description = "A shell function that puts the GPU driver's directory into the run path of a file";
      file = ./addDriverRunpath.bash;
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
        file = ./dropIn/autoAddDriverRunpath.bash;
        arguments = { inherit autoFixElfFiles; };
        propagated = given: [ given.autoFixElfFiles ];
      };
      autoAddCudaCompatRunpath = hook {
        name = "auto-add-cuda-compat-runpath-hook";
        inherit (plain.addCudaCompatRunpath) description;
        usesCompat = true;
        file = ./dropIn/autoAddCudaCompatRunpath.bash;
        arguments = { inherit autoFixElfFiles; };
        propagated = given: [ given.autoFixElfFiles ];
      };
      removeStubsFromRunpathHook = hook {
        name = "removeStubsFromRunpathHook";
        inherit (plain.stubReplace) description;
        compatForStubs = true;
        file = ./dropIn/removeStubsFromRunpathHook.bash;
        arguments = { inherit autoFixElfFiles getRunpathEntries; };
        propagated =
          given:
          lib.optional (given.getRunpathEntries != null) given.getRunpathEntries
          ++ [ given.autoFixElfFiles ];
      };
    };
}
