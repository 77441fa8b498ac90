# shellcheck shell=bash
cudaRunpathAutoPatchelf '@tools@' '@bintools@'
