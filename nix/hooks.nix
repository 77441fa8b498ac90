# The hooks: the shared text, then a few lines of each one's own (../hooks). They
# differ from each other only in those lines, so any number of them in one build
# agree on everything else.
{
  lib,
  makeSetupHook,
  writeText,
  hostPlatform,
  # The tools, for the machine that builds.
  cuda-runpath,
  # The compat package, for the machine that the edited files are for; null: none.
  cuda_compat,
}:
let
  core = builtins.readFile ../hooks/core.bash;

  # A hook that is made of PARTS. Each tool is an output of its own, so the closure
  # of a hook is its text and the tools it calls.
  hook =
    {
      name,
      description,
      tools,
      parts,
      passthru ? { },
      propagated ? [ ],
    }:
    lib.makeOverridable (
      {
        cuda-runpath,
        cuda_compat,
      }:
      let
        # With allowUnsupportedSystem, what cannot be built here is available all the same.
        available =
          cuda_compat != null
          && cuda_compat.meta.available or true
          && !(cuda_compat.meta.unsupported or false);
        usesCompat = lib.elem "addCudaCompatRunpath" parts;
      in
      makeSetupHook
        {
          name = "${name}-hook";
          propagatedBuildInputs = propagated;
          substitutions =
            lib.genAttrs tools (tool: "${lib.getOutput tool cuda-runpath}")
            // lib.optionalAttrs usesCompat {
              cudaCompat = lib.optionalString available "${cuda_compat}/compat";
            };
          passthru = lib.optionalAttrs usesCompat { enableHook = available; } // passthru;
          meta = {
            inherit description;
            license = lib.licenses.mit;
            platforms = lib.platforms.linux;
          };
        }
        (
          writeText "${name}.bash" (
            core + lib.concatMapStrings (part: "\n" + builtins.readFile (../hooks + "/${part}.bash")) parts
          )
        )
    ) { inherit cuda-runpath cuda_compat; };

  driverLink = "/run/opengl-driver" + lib.optionalString (hostPlatform.isi686 or false) "-32";

  plain = {
    stubReplace = {
      name = "stubReplace";
      description = "Takes stub directories out of the run paths of all outputs and asks for the GPU driver's";
      tools = [ "stubReplace" ];
      parts = [ "stubReplace" ];
    };

    autoAddDriverRunpath = {
      name = "autoAddDriverRunpath";
      description = "Puts the GPU driver's directory into the run paths of all outputs";
      tools = [ "autoAddDriverRunpath" ];
      parts = [
        "autoAddDriverRunpath"
        "addDriverRunpath"
      ];
    };

    addCudaCompatRunpath = {
      name = "addCudaCompatRunpath";
      description = "Puts cuda_compat's directory in front of the run paths of all outputs";
      tools = [ "addCudaCompatRunpath" ];
      parts = [ "addCudaCompatRunpath" ];
    };

    noRunpathAmbiguity = {
      name = "noRunpathAmbiguity";
      description = "Fails the build where the order of a run path decides which library is loaded";
      tools = [ "noRunpathAmbiguity" ];
      parts = [ "noRunpathAmbiguity" ];
    };

    # Brings all four.
    cudaRunpathHook = {
      name = "cudaRunpath";
      description = "Makes the run paths of all outputs right for CUDA: no stubs, the driver's directory, cuda_compat's, and nothing ambiguous";
      tools = [
        "stubReplace"
        "autoAddDriverRunpath"
        "addCudaCompatRunpath"
        "noRunpathAmbiguity"
      ];
      parts = [
        "stubReplace"
        "autoAddDriverRunpath"
        "addDriverRunpath"
        "addCudaCompatRunpath"
        "noRunpathAmbiguity"
      ];
    };

    # Only the shell function, for packages that call it in their own phases.
    addDriverRunpath = {
      name = "addDriverRunpath";
      description = "A shell function that puts the GPU driver's directory into the run path of a file";
      tools = [ "autoAddDriverRunpath" ];
      parts = [ "addDriverRunpath" ];
      passthru = { inherit driverLink; };
    };
  };
in
builtins.mapAttrs (_: hook) plain
// {
  # For overlays.dropIn: the hooks with the shell functions that nixpkgs' bring.
  dropIn =
    { autoFixElfFiles }:
    let
      with' =
        functions: arguments:
        hook (
          arguments
          // {
            parts = arguments.parts ++ functions;
            propagated = [ autoFixElfFiles ];
          }
        );
    in
    {
      autoAddDriverRunpath = with' [ ] plain.autoAddDriverRunpath;
      autoAddCudaCompatRunpath = with' [ "addCudaCompatRunpath-function" ] plain.addCudaCompatRunpath;
      removeStubsFromRunpathHook = with' [ "removeStubsFromRunpath-function" ] plain.stubReplace;
    };
}
