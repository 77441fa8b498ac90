// Package programs says which names cmd/runpath answers to, and what it is under each.
package programs

import (
	"io"
	"path/filepath"

	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/cli/patchelf"
)

// Program is one of the names: what a hook or a user calls. cmd/tools.json lists them for
// Nix and the hooks; a test compares the two.
type Program struct {
	Name string
	// Run runs it on the arguments of a command line, the name first, and returns the
	// exit status.
	Run func(args []string, stdout, stderr io.Writer) int
}

// All returns all of them, the one that answers to unknown names first.
func All() []Program {
	all := []Program{
		app("runpath", cli.RunPath),
		app("noRunpathAmbiguity", cli.NoRunpathAmbiguity),
		app("autoPatchelf", cli.AutoPatchelf),
		{"patchelf", func(args []string, stdout, stderr io.Writer) int { return patchelf.Run(args[1:], stdout, stderr) }},
	}
	for _, t := range cli.Tools() {
		all = append(all, app(t.Name, t.App))
	}
	return all
}

// app makes a program of an app, which is not built before it runs.
func app(name string, make func() *urfave.App) Program {
	return Program{name, func(args []string, stdout, stderr io.Writer) int { return cli.Run(make(), args, stdout, stderr) }}
}

// Run runs the program whose name a command line begins with, as one binary that is
// installed under several names does, and returns the exit status.
func Run(args []string, stdout, stderr io.Writer) int {
	all := All()
	chosen := all[0]
	if len(args) == 0 {
		args = []string{chosen.Name}
	}
	for _, p := range all {
		if p.Name == filepath.Base(args[0]) {
			chosen = p
		}
	}
	return chosen.Run(args, stdout, stderr)
}
