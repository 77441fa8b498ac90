# The hooks of one CUDA set: the shared text, then a few lines of each one's own
# They differ from each other only in those lines, so any number of them in
# one build agree on everything else.
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
  cudaCapabilities ? "",
  # For that machine; null: the standard environment's, which is there anyway.
  bintools ? null,
  # nixpkgs', for that machine; null: nixpkgs has none.
  addDriverRunpath,
  # More of cudaRunpathHook's attributes.
  passthru ? { },
}:
let
  core = builtins.readFile ./core.bash;

  # Where no file that is built can be an ELF file, as on Darwin, the hooks are there and
  # do nothing, as nixpkgs' do: packages list them without asking for the platform.
  hasELF = hostPlatform.isLinux || targetPlatform.isLinux;

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

  # A hook that is made of PARTS, NAME.bash here. All tools are one program, so the
  # closure of a hook is its text and that program. It is overridden as nixpkgs' hook of the
  # same name is, with that one's arguments.
  hook =
    {
      name,
      description,
      parts,
      # SETTING = [ PART … ]: parts that a package asks for by that setting.
      onSetting ? { },
      # More arguments for override, and what is made of all.
      arguments ? { },
      substitutions ? _: { },
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
        usesCompat = builtins.any (part: lib.hasSuffix "CudaCompatRunpath" part) parts;
        textOf = lib.concatMapStrings (part: "\n" + builtins.readFile (./. + "/${part}.bash"));
        text =
          if hasELF then
            core
            + textOf parts
            + lib.concatMapStrings (setting: ''
              if [[ -n ''${${setting}-} ]]; then
              ${textOf onSetting.${setting}}
              fi
            '') (builtins.attrNames onSetting)
          else
            "addDriverRunpath() { :; }\n";
      in
      lib.warnIf (auto-patchelf != arguments.auto-patchelf or null)
        "${name}: the argument auto-patchelf is not used: cuda-runpath is what patches; override that"
        (
          makeSetupHook {
            inherit name;
            propagatedBuildInputs = propagated given;
            substitutions = lib.optionalAttrs hasELF (
              {
                tools = "${lib.getOutput "tools" cuda-runpath}";
                inherit cudaCapabilities;
                driverLink = lib.optionalString (!isUsual driverLink) driverLink;
              }
              // lib.optionalAttrs usesCompat {
                cudaCompat = lib.optionalString available "${cuda_compat}/compat";
                cudaCompatUnknown = cuda_compat.unknown or "";
              }
              // substitutions given
            );
            passthru = lib.optionalAttrs usesCompat { enableHook = available; } // passthru;
            meta = {
              inherit description;
              license = lib.licenses.mit;
              maintainers = [ ];
            }
            // lib.optionalAttrs hasELF { platforms = lib.platforms.linux; };
          } (writeText "${name}.bash" text)
        )
    ) ({ inherit cuda-runpath cuda_compat addDriverRunpath; } // arguments);

  plain = {
    stubReplace = {
      name = "stubReplace-hook";
      description = "Takes stub directories out of the run paths of all outputs and asks for the GPU driver's";
      parts = [ "stubReplace" ];
    };

    autoAddDriverRunpath = {
      name = "autoAddDriverRunpath-hook";
      description = "Puts the GPU driver's directory into the run paths of all outputs";
      parts = [
        "autoAddDriverRunpath"
        "addDriverRunpath"
      ];
    };

    addCudaCompatRunpath = {
      name = "addCudaCompatRunpath-hook";
      description = "Puts cuda_compat's directory in front of the run paths of all outputs";
      parts = [ "addCudaCompatRunpath" ];
    };

    noRunpathAmbiguity = {
      name = "noRunpathAmbiguity-hook";
      description = "Fails the build where the order of a run path decides which library is loaded";
      parts = [ "noRunpathAmbiguity" ];
    };

    cudaCapabilitiesCheck = {
      name = "cudaCapabilitiesCheck-hook";
      description = "Fails the build where outputs have no code for a GPU that the CUDA set is for";
      parts = [ "cudaCapabilitiesCheck" ];
    };

    # Brings the first four, and what a package asks for by a setting.
    cudaRunpathHook = {
      name = "cudaRunpath-hook";
      description = "Makes the run paths of all outputs right for CUDA: no stubs, the driver's directory, cuda_compat's, and nothing ambiguous";
      parts = [
        "stubReplace"
        "autoAddDriverRunpath"
        "addDriverRunpath"
        "addCudaCompatRunpath"
        "noRunpathAmbiguity"
      ];
      inherit passthru;
      # For autoPatchelf: what the standard environment says. A linker of its own would be
      # in the closure of every package's build.
      substitutions = _: { bintools = ""; };
      # Its functions have the names of nixpkgs', which a package may have beside this.
      onSetting.cudaRunpathAutoPatchelf = [
        "autoPatchelf-functions"
        "autoPatchelf"
      ];
      onSetting.cudaRunpathCheckCapabilities = [ "cudaCapabilitiesCheck" ];
      onSetting.cudaThin = [ "thinCuda" ];
      onSetting.cudaBlankOptions = [ "thinCuda" ];
    };

    # nixpkgs' hook of this name, with its functions and settings.
    autoPatchelfHook = {
      name = "auto-patchelf-hook";
      description = "Makes prebuilt programs and libraries find the libraries that they need";
      parts = [
        "autoPatchelf-functions"
        "autoPatchelf"
      ];
      # bintools says which interpreter and which C library programs get, where the standard
      # environment (stdenvNoCC) does not. It is propagated, as nixpkgs' hook does, so that
      # its name in the text makes no closure larger; so is the program `auto-patchelf`.
      arguments = {
        inherit bintools;
        auto-patchelf = lib.getOutput "tools" cuda-runpath;
      };
      propagated =
        given:
        [ (lib.getOutput "tools" given.cuda-runpath) ]
        ++ lib.optional (given.bintools != null) given.bintools;
      substitutions = given: {
        bintools = lib.optionalString (given.bintools != null) "${given.bintools}";
      };
    };

    # Only the shell function, for packages that call it in their own phases.
    addDriverRunpath = {
      name = "addDriverRunpath-hook";
      description = "A shell function that puts the GPU driver's directory into the run path of a file";
      parts = [ "addDriverRunpath" ];
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
  # For overlays.dropIn: the hooks under nixpkgs' names, which nixpkgs looks for, with the
  # shell functions that nixpkgs' bring.
  dropIn =
    {
      autoFixElfFiles,
      addDriverRunpath,
      # null: nixpkgs has none.
      getRunpathEntries ? null,
    }:
    {
      autoAddDriverRunpath = hook {
        name = "auto-add-driver-runpath-hook";
        inherit (plain.autoAddDriverRunpath) description;
        parts = [
          "addDriverRunpath"
          "dropIn/autoAddDriverRunpath"
        ];
        arguments = { inherit autoFixElfFiles; };
        substitutions = _: { nixpkgsFunction = "${addDriverRunpath}/nix-support/setup-hook"; };
        propagated = given: [ given.autoFixElfFiles ];
      };
      autoAddCudaCompatRunpath = hook {
        name = "auto-add-cuda-compat-runpath-hook";
        inherit (plain.addCudaCompatRunpath) description;
        parts = [ "dropIn/autoAddCudaCompatRunpath" ];
        arguments = { inherit autoFixElfFiles; };
        propagated = given: [ given.autoFixElfFiles ];
      };
      removeStubsFromRunpathHook = hook {
        name = "removeStubsFromRunpathHook";
        inherit (plain.stubReplace) description;
        parts = [ "dropIn/removeStubsFromRunpathHook" ];
        arguments = { inherit autoFixElfFiles getRunpathEntries; };
        propagated =
          given:
          lib.optional (given.getRunpathEntries != null) given.getRunpathEntries
          ++ [ given.autoFixElfFiles ];
      };
    };
}
