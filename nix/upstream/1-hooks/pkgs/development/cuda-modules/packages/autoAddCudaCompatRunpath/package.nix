{
  autoFixElfFiles,
  cuda-runpath,
  cudaPackages,
  cuda_compat,
}:
((cuda-runpath.hooksFor (cudaPackages // { inherit cuda_compat; })).dropIn {
  inherit autoFixElfFiles;
}).autoAddCudaCompatRunpath.override
  { inherit autoFixElfFiles; }
