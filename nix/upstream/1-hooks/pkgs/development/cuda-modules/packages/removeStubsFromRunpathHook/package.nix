{
  addDriverRunpath,
  arrayUtilities,
  autoFixElfFiles,
  cuda-runpath,
  cudaPackages,
}:
((cuda-runpath.hooksFor cudaPackages).dropIn {
  inherit autoFixElfFiles;
  inherit (arrayUtilities) getRunpathEntries;
}).removeStubsFromRunpathHook.override
  { inherit addDriverRunpath; }
