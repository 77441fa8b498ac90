// Command addCudaCompatRunpath adds a CUDA compat directory to run paths.
package main

import "cuda-runpath/pkg/command"

func main() { command.Main(command.AddCudaCompatRunpath().App()) }
