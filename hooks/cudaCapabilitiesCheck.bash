# shellcheck shell=bash
# Fails the build where outputs have no code for a GPU that the CUDA set is for.
cudaRunpathBringCapabilities '@cudaCapabilities@'
cudaRunpathRegister cudaCapabilitiesCheck '@tools@' '@driverLink@'
