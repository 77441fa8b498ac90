# shellcheck shell=bash
# Takes stub directories out of run paths and asks for the driver's instead.
cudaRunpathRegister stubReplace '@tools@' '@driverLink@'
