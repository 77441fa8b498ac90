// Command thinCuda takes the code for GPUs that are not asked for out of programs and libraries.
package main

import (
	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/cli/urfave"
)

func main() { urfave.Main(cli.ThinCuda()) }
