// Command cudaCapabilitiesCheck checks that files have code for the GPUs that were asked for.
package main

import (
	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/cli/urfave"
)

func main() { urfave.Main(cli.CudaCapabilitiesCheck()) }
