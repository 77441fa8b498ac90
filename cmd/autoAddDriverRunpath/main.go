// Command autoAddDriverRunpath adds the host's driver directory to run paths.
package main

import (
	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/command"
	"cuda-runpath/pkg/runpath"
)

func main() {
	command.Main(command.Tool{
		Name:  "autoAddDriverRunpath",
		Usage: "add the directory of the host's GPU driver to run paths",
		Description: `
The driver's libraries, such as libcuda.so.1, belong to the host and are in no package; on NixOS they are linked in
/run/opengl-driver/lib (for 32-bit x86 in /run/opengl-driver-32/lib). autoAddDriverRunpath makes that directory the
first entry of the run path, behind a compat directory, once.`,
		Map: runpath.AddDriverLink,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "when", Value: "always", Usage: "which files: `always|needed`, needed where a file names a library of the driver or the CUDA toolkit in DT_NEEDED, .note.dlopen or its constants"},
		},
		Configure: func(c *cli.Context, e *command.Editor) error {
			switch when := c.String("when"); when {
			case "always":
			case "needed":
				e.WhenNeeds = true
			default:
				return command.Misusef("--when %q: always or needed", when)
			}
			return nil
		},
	}.App())
}
