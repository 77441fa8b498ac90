# shellcheck shell=bash
cudaRunpathAutoPatchelf '@tools@'
