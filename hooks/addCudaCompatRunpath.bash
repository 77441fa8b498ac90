# shellcheck shell=bash
# Puts the compat package's directory in front of every run path. Where there is no
# compat package, that argument is empty, and it does nothing.
cudaRunpathRegister addCudaCompatRunpath '@tools@' '@driverLink@'
cudaRunpathBringCompat '@cudaCompat@' '@cudaCompatUnknown@'
