# default: adds our names and replaces none, so it rebuilds nothing of nixpkgs.
# dropIn: default, and our hooks under nixpkgs' names.
let
  # The CUDA sets by name: cudaPackages, cudaPackages_12, cudaPackages_12_9, … Some of
  # them throw, since nixpkgs has removed them; they still do.
  setsOf =
    prev:
    builtins.filter (name: builtins.match "cudaPackages(_[0-9_]+)?" name != null) (
      builtins.attrNames prev
    );

  # Adds EXTENSION to every CUDA set. nixpkgs since 25.11 applies _cuda.extensions to
  # each; before, each set is extended by itself. The names that an overlay gives are the
  # same either way: were they to depend on what _cuda is, a _cuda that another overlay
  # makes with the help of `final` would depend on itself.
  extendSets =
    prev: extension:
    let
      hasExtensions = (prev._cuda or { }) ? extensions;
    in
    builtins.listToAttrs (
      map (name: {
        inherit name;
        value = if hasExtensions then prev.${name} else prev.${name}.overrideScope extension;
      }) (setsOf prev)
    )
    // prev.lib.optionalAttrs (prev ? _cuda) {
      _cuda =
        if hasExtensions then
          prev._cuda.extend (_: prevCuda: { extensions = prevCuda.extensions ++ [ extension ]; })
        else
          prev._cuda;
    };

  # Our names in a CUDA set: the hooks, with that set's cuda_compat.
  ownNames = ours: cudaFinal: {
    inherit (ours.hooksFor cudaFinal)
      cudaRunpathHook
      stubReplace
      addCudaCompatRunpath
      noRunpathAmbiguity
      cudaCapabilitiesCheck
      thinCuda
      ;
  };

  added =
    final:
    let
      ours = import ./. { pkgs = final; };
    in
    {
      # Everything, also the names that nixpkgs has for hooks of its own:
      # autoAddDriverRunpath and addDriverRunpath.
      cudaRunpath = ours;
      inherit (ours)
        cuda-runpath
        hostDriver
        cudaRunpathHook
        fixupElfHook
        stubReplace
        addCudaCompatRunpath
        autoAddCudaCompatRunpath
        removeStubsFromRunpathHook
        noRunpathAmbiguity
        cudaCapabilitiesCheck
        thinCuda
        noRunpathAmbiguityHook
        ;
    };
in
{
  default =
    final: prev:
    let
      names = added final;
    in
    names // extendSets prev (cudaFinal: _: ownNames names.cudaRunpath cudaFinal);

  # Replaces autoAddDriverRunpath and autoPatchelfHook, and in every CUDA set autoAddCudaCompatRunpath and
  # removeStubsFromRunpathHook. The shell functions that nixpkgs' hooks bring stay
  # callable: addDriverRunpath, addCudaCompatRunpath, removeStubsFromRunpath (ours),
  # autoFixElfFiles and getRunpathEntries (nixpkgs' own). elfHasDynamicSection comes with
  # autoFixElfFiles. nixpkgs' addDriverRunpath is not replaced: it is in far more packages,
  # and what it writes before our hooks run, they put into the normal form.
  # `lib.dropInRebuilds` says what else is rebuilt.
  dropIn =
    final: prev:
    let
      names = added final;
      ours = names.cudaRunpath;
      dropInFor =
        cudaPackages:
        (ours.hooksFor cudaPackages).dropIn {
          inherit (final) autoFixElfFiles;
          # Since 25.11.
          getRunpathEntries = final.arrayUtilities.getRunpathEntries or null;
        };
    in
    names
    // {
      inherit (dropInFor (final.cudaPackages or { })) autoAddDriverRunpath;
      inherit (ours) autoPatchelfHook;
    }
    // extendSets prev (
      cudaFinal: _:
      ownNames ours cudaFinal
      // {
        inherit (dropInFor cudaFinal) autoAddCudaCompatRunpath removeStubsFromRunpathHook;
      }
    );
}
