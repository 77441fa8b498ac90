// Command addCudaCompatRunpath adds a CUDA compat directory to run paths.
package main

import (
	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/urfave"
)

func main() { urfave.Main(editors.AddCudaCompatRunpath.Command()) }
