// Command autoAddDriverRunpath adds the host's driver directory to run paths.
package main

import "cuda-runpath/pkg/command"

func main() { command.Main(command.AutoAddDriverRunpath().App()) }
