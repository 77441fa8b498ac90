// Command hostDriver makes the host's GPU driver usable by programs built with Nix
// on any Linux system.
package main

import (
	"os"

	"cuda-runpath/pkg/cli/hostdriver"
)

func main() { os.Exit(hostdriver.Run(os.Args, os.Stdout, os.Stderr)) }
