// Package hostdriver is the command line of hostDriver, which makes the host's GPU
// driver usable by programs built with Nix on any Linux system.
package hostdriver

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/urfave"
	"cuda-runpath/pkg/host/run"
)

// Run carries out hostDriver's command line and returns the exit status.
func Run(args []string, stdout, stderr io.Writer) int {
	run.Enter() // does nothing unless "run" started this process inside a namespace
	status := urfave.Run(app(), ownArguments(args), stdout, stderr)
	if start := (*run.StartError)(nil); errors.As(notStarted, &start) {
		fmt.Fprintf(stderr, "hostDriver: %s\n", command.InkFor(stderr).Paint(command.Red, command.Printable(start.Error())))
		status = start.Status()
	}
	return status
}

func app() *command.Command {
	app := command.New("hostDriver", "COMMAND ...", "give programs built with Nix the host's GPU driver", `
Programs built with Nix look for the GPU driver in /run/opengl-driver/lib, which only NixOS has. On any other host,
"hostDriver install" (root) puts the driver's libraries there, and "hostDriver run PROGRAM" (anybody) starts one program
with them; "hostDriver doctor" says whether a CUDA program can work here and what to do if it cannot.`,
		"hostDriver run ./app\nhostDriver doctor ./app")
	app.OfFile = "run"
	app.Commands = []*command.Command{findCommand, installCommand, uninstallCommand, tmpfilesCommand, runCommand,
		sandboxCommand, cdiCommand, doctorCommand}
	return app
}

// ownArguments returns a command line with "--" before run's PROGRAM, whose arguments are not
// hostDriver's.
func ownArguments(args []string) []string {
	for i := 1; i < len(args); i++ {
		if args[i] != "run" {
			continue
		}
		for j := i + 1; j < len(args) && args[j] != "--"; j++ {
			if args[j] == "" || args[j][0] != '-' {
				return append(append(append([]string{}, args[:j]...), "--"), args[j:]...)
			}
			if command.TakesValue(runCommand.Flags, strings.TrimLeft(args[j], "-")) {
				j++
			}
		}
		break
	}
	return args
}
