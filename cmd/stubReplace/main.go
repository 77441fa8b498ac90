// Command stubReplace takes link-time stub directories out of run paths and lets
// the host's driver directory stand in for them.
package main

import (
	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/urfave"
)

func main() { urfave.Main(editors.StubReplace.Command()) }
