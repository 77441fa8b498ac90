// Command addCudaCompatRunpath adds a CUDA compat directory to run paths.
package main

import "cuda-runpath/pkg/cli"

func main() { cli.Main(cli.AddCudaCompatRunpath().App()) }
