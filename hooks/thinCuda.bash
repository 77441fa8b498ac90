# shellcheck shell=bash
# Takes the code for other GPUs than those of the CUDA set out of outputs (cudaThin), and blanks the
# store paths that nvlink notes in GPU code (cudaBlankOptions).
cudaRunpathBringCapabilities '@cudaCapabilities@'
cudaRunpathRegister thinCuda '@tools@' '@driverLink@'
