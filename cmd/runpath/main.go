// Command runpath shows and sets the run paths of ELF files. It is also every other tool
// but hostDriver: called by the name of one, it is that one.
package main

import (
	"os"

	"cuda-runpath/pkg/cli/programs"
	"cuda-runpath/pkg/cli/urfave"
)

func main() { os.Exit(programs.Run(os.Args, os.Stdout, os.Stderr, urfave.Run)) }
