{
  addDriverRunpath,
  autoFixElfFiles,
  cudaPackages,
  cuda_compat,
  pkgs,
}:
((pkgs.cudaRunpathHook.hooksFor (cudaPackages // { inherit cuda_compat; })).dropIn {
  inherit addDriverRunpath autoFixElfFiles;
}).autoAddCudaCompatRunpath.override
  { inherit autoFixElfFiles; }
