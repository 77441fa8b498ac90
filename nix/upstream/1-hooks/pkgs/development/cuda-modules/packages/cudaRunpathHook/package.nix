{ cuda-runpath, cudaPackages }: (cuda-runpath.hooksFor cudaPackages).cudaRunpathHook
