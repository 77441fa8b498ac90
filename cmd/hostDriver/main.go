// Command hostDriver makes the host's GPU driver usable by programs built with Nix
// on any Linux system.
package main

import "cuda-runpath/pkg/cli/hostdriver"

func main() { hostdriver.Main() }
