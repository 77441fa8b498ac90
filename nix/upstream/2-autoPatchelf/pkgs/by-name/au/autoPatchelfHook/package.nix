{
  lib,
  auto-patchelf,
  bintools,
  cudaRunpathHook,
}:
# Whoever overrides it means that it should run.
lib.warnIf (auto-patchelf.pname or "" != "auto-patchelf")
  "autoPatchelfHook: the argument auto-patchelf is not used: cuda-runpath is what patches; override that"
  (
    ((cudaRunpathHook.hooksFor { }).autoPatchelfHook.override { inherit bintools; }).overrideAttrs
      (old: {
        meta = old.meta // {
          maintainers = with lib.maintainers; [ layus ];
        };
      })
  )
