{
  addDriverRunpath,
  autoFixElfFiles,
  cudaRunpathHook,
}:
((cudaRunpathHook.hooksFor { }).dropIn { inherit autoFixElfFiles; })
.autoAddDriverRunpath.override
  { inherit addDriverRunpath autoFixElfFiles; }
