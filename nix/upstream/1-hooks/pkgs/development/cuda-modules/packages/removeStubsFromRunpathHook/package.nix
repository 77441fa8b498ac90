{
  addDriverRunpath,
  arrayUtilities,
  autoFixElfFiles,
  cudaPackages,
  pkgs,
}:
((pkgs.cudaRunpathHook.hooksFor cudaPackages).dropIn {
  inherit addDriverRunpath autoFixElfFiles;
  inherit (arrayUtilities) getRunpathEntries;
}).removeStubsFromRunpathHook.override
  { inherit addDriverRunpath; }
