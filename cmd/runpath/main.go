// Command runpath shows and sets the run paths of ELF files. Called by the name
// patchelf, it has patchelf's command line.
package main

import (
	"os"
	"path/filepath"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/cli/patchelf"
)

func main() {
	if filepath.Base(os.Args[0]) == "patchelf" {
		os.Exit(patchelf.Run(os.Args[1:], os.Stdout, os.Stderr))
	}
	cli.Main(cli.RunPath())
}
