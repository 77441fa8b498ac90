// Command patchelf answers to patchelf's command line with the editor of runpath.
package main

import (
	"os"

	"cuda-runpath/pkg/cli/patchelf"
)

func main() { os.Exit(patchelf.Run(os.Args[1:], os.Stdout, os.Stderr)) }
