// Command runpath shows and sets the run paths of ELF files.
package main

import "cuda-runpath/pkg/cli"

func main() { cli.Main(cli.RunPath()) }
