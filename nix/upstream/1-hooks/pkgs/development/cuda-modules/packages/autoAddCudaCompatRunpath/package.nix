{
  addDriverRunpath,
  autoFixElfFiles,
  cuda-runpath,
  cudaPackages,
  cuda_compat,
}:
((cuda-runpath.hooksFor (cudaPackages // { inherit cuda_compat; })).dropIn {
  inherit addDriverRunpath autoFixElfFiles;
}).autoAddCudaCompatRunpath.override
  { inherit autoFixElfFiles; }
