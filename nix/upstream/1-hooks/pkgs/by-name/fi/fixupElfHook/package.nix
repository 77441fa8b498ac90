{ cudaRunpathHook }: (cudaRunpathHook.hooksFor { }).fixupElfHook
