# shellcheck shell=bash
# Fails the build where the order of a run path decides which library is loaded.
cudaRunpathRegister noRunpathAmbiguity '@tools@' '@driverLink@'
