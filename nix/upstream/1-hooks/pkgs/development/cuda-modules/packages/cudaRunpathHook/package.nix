{ cudaPackages, pkgs }: (pkgs.cudaRunpathHook.hooksFor cudaPackages).cudaRunpathHook
