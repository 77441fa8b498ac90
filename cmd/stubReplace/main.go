// Command stubReplace takes link-time stub directories out of run paths and lets
// the host's driver directory stand in for them.
package main

import (
	"cuda-runpath/pkg/cli/editing"
	"cuda-runpath/pkg/cli/urfave"
)

func main() { urfave.Main(editing.StubReplace.Command()) }
