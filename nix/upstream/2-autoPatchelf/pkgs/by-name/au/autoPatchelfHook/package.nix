{ bintools, cudaRunpathHook }:
(cudaRunpathHook.hooksFor { }).autoPatchelfHook.override { inherit bintools; }
