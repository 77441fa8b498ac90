// Command autoPatchelf makes prebuilt programs and libraries find the libraries
// that they need.
package main

import (
	"cuda-runpath/pkg/cli/autopatchelf"
	"cuda-runpath/pkg/cli/urfave"
)

func main() { urfave.Main(autopatchelf.Command()) }
