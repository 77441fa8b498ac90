// Command noRunpathAmbiguity checks that a run path leaves no doubt about which
// file the loader takes for a library.
package main

import (
	"cuda-runpath/pkg/cli/ambiguity"
	"cuda-runpath/pkg/cli/urfave"
)

func main() { urfave.Main(ambiguity.Command()) }
