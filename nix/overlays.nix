# default: adds our names and replaces none, so it rebuilds nothing of nixpkgs.
# dropIn: default, and our hooks under nixpkgs' names.
rec {
  default =
    final: prev:
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
        stubReplace
        addCudaCompatRunpath
        autoAddCudaCompatRunpath
        removeStubsFromRunpathHook
        noRunpathAmbiguity
        noRunpathAmbiguityHook
        ;
    };

  # Replaces autoAddDriverRunpath, and in every cudaPackages set
  # autoAddCudaCompatRunpath and removeStubsFromRunpathHook. The shell functions that
  # nixpkgs' hooks bring stay callable: addDriverRunpath, addCudaCompatRunpath,
  # removeStubsFromRunpath (ours), autoFixElfFiles (nixpkgs' own). elfHasDynamicSection
  # comes with the last; getRunpathEntries, which nixpkgs' stub hook brings, is lost.
  # nixpkgs' addDriverRunpath is not replaced: it is in far more packages, and what it
  # writes before our hooks run, they put into the normal form.
  # `lib.dropInRebuilds` says what else is built anew.
  dropIn =
    final: prev:
    let
      added = default final prev;
      hooks = added.cudaRunpath.dropIn { inherit (final) autoFixElfFiles; };

      # In a cross build the hook runs here and edits files for there.
      compatOf =
        cudaFinal:
        let
          name = "cudaPackages_${
            builtins.replaceStrings [ "." ] [ "_" ] (cudaFinal.cudaMajorMinorVersion or "")
          }";
        in
        if final.stdenv.hostPlatform.system == final.stdenv.targetPlatform.system then
          cudaFinal.cuda_compat or null
        else
          final.targetPackages.${name}.cuda_compat or null;

      extension = cudaFinal: _: {
        autoAddCudaCompatRunpath = hooks.autoAddCudaCompatRunpath.override {
          cuda_compat = compatOf cudaFinal;
        };
        inherit (hooks) removeStubsFromRunpathHook;
      };

      # nixpkgs since 25.11 applies _cuda.extensions to every set; before, each set is
      # extended by itself. The names that this overlay gives are the same either way:
      # were they to depend on what _cuda is, a _cuda that another overlay makes with
      # the help of `final` would depend on itself.
      sets = builtins.filter (name: builtins.match "cudaPackages(_[0-9_]+)?" name != null) (
        builtins.attrNames prev
      );
      hasExtensions = (prev._cuda or { }) ? extensions;
    in
    added
    // {
      inherit (hooks) autoAddDriverRunpath;
    }
    // builtins.listToAttrs (
      map (name: {
        inherit name;
        value = if hasExtensions then prev.${name} else prev.${name}.overrideScope extension;
      }) sets
    )
    // (
      if prev ? _cuda then
        {
          _cuda =
            if hasExtensions then
              prev._cuda.extend (
                _: prevCuda: {
                  extensions = prevCuda.extensions ++ [ extension ];
                }
              )
            else
              prev._cuda;
        }
      else
        { }
    );
}
