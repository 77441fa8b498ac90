// Package programs says which names cmd/runpath answers to, and what it is under each.
package programs

import (
	"io"
	"path/filepath"
	"slices"

	"cuda-runpath/pkg/cli/ambiguity"
	"cuda-runpath/pkg/cli/autopatchelf"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/patchelf"
)

// Program is one of the names: what a hook or a user calls. cmd/tools.json lists them for
// Nix and the hooks; a test compares the two.
type Program struct {
	Name string
	// Command returns what it is; it is called for the program that runs only.
	Command func() *command.Command
	// Run, where it is not nil, is what runs it instead, without flags of ours: it is given
	// the command line, without the name, and returns the exit status.
	Run func(args []string, stdout, stderr io.Writer) int
}

// others are those that are not one of [editors.Tools]; the first answers to unknown names.
var others = []Program{
	{Name: "runpath", Command: RunPath},
	{Name: "noRunpathAmbiguity", Command: ambiguity.Command},
	{Name: "autoPatchelf", Command: autopatchelf.Command},
	{Name: "patchelf", Run: patchelf.Run},
}

// All returns all of them.
func All() []Program {
	all := slices.Clone(others)
	for _, t := range editors.Tools() {
		all = append(all, Program{Name: t.Name, Command: t.Command})
	}
	return all
}

// called returns the program whose name a command line begins with, as one binary does that
// is installed under several names, and the command line.
func called(args []string) (Program, []string) {
	if len(args) == 0 {
		return others[0], []string{others[0].Name}
	}
	name := filepath.Base(args[0])
	if name == "auto-patchelf" { // as nixpkgs calls it
		name = "autoPatchelf"
	}
	all := All()
	if i := slices.IndexFunc(all, func(p Program) bool { return p.Name == name }); i >= 0 {
		return all[i], args
	}
	return others[0], args
}

// Run runs the program whose name a command line begins with, and returns the exit status.
// run is what carries out a command's command line.
func Run(args []string, stdout, stderr io.Writer, run func(c *command.Command, args []string, stdout,
	stderr io.Writer) int) int {
	p, args := called(args)
	if p.Run != nil {
		return p.Run(args[1:], stdout, stderr)
	}
	return run(p.Command(), args, stdout, stderr)
}
