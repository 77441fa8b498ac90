# shellcheck shell=bash
# Puts the driver link into every run path.
cudaRunpathRegister autoAddDriverRunpath '@tools@' '@driverLink@'
