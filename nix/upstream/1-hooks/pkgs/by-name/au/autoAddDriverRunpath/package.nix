{
  addDriverRunpath,
  autoFixElfFiles,
  cudaRunpathHook,
}:
((cudaRunpathHook.hooksFor { }).dropIn { inherit addDriverRunpath autoFixElfFiles; })
.autoAddDriverRunpath.override
  { inherit addDriverRunpath autoFixElfFiles; }
