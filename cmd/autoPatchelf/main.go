// Command autoPatchelf makes prebuilt programs and libraries find the libraries
// that they need.
package main

import "cuda-runpath/pkg/cli"

func main() { cli.Main(cli.AutoPatchelf()) }
