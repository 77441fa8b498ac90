// Command addCudaCompatRunpath adds a CUDA compat directory to run paths.
package main

import (
	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/command"
	"cuda-runpath/pkg/runpath"
)

func main() {
	command.Main(command.Tool{
		Name:  "addCudaCompatRunpath",
		Usage: "add a CUDA compat directory to run paths, before the driver's",
		Description: `
A compat directory (${cuda_compat}/compat) holds a libcuda.so.1 that is newer than the host's driver and works with its
kernel module: on Jetson, and by forward compatibility on data-centre GPUs. addCudaCompatRunpath makes the directory that
--compat names the first entry of the run path, once.`,
		Map: runpath.AddCompat,
		Configure: func(c *cli.Context, e *command.Editor) error {
			if e.Compat == "" {
				return command.Misuse("--compat DIR is required")
			}
			return nil
		},
	}.App())
}
