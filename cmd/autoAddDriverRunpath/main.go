// Command autoAddDriverRunpath adds the host's driver directory to run paths.
package main

import "cuda-runpath/pkg/cli"

func main() { cli.Main(cli.AutoAddDriverRunpath().App()) }
