package write

import (
	"slices"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/normalform"
)

// normalize returns a command that does the work of several tools in one walk.
func normalize() *command.Command {
	own := []*command.Flag{
		{Kind: command.List, Name: "tool", Values: normalform.ToolNames(),
			Usage: "do what `NAME` does (repeatable); without it only the normal form"},
		{
			Name:  "opened",
			Usage: "append entries for CUDA toolkit libraries from --libs that a file names in its read-only data"},
		{Kind: command.List, Name: "libs", Check: flags.CheckEntry, Usage: "with --opened, look in `DIR` (repeatable)"},
	}
	for _, t := range editors.Tools() {
		own = append(own, t.Flags...)
	}
	return &command.Command{
		Name:      "normalize",
		Usage:     "do the work of several of the tools in one walk",
		Common:    []string{"tool", "driver-link", "compat", "dry-run", "json", "verbose"},
		Rare:      true,
		Examples:  "runpath normalize --tool stubReplace --tool autoAddDriverRunpath app",
		ArgsUsage: "PATH...",
		Description: "The tools are " + normalform.ToolList() +
			". The result is the same as running\nthem one after the other, in any order; the time is that of one.",
		Flags: slices.Concat(own, []*command.Flag{flags.ResolutionNote}, flags.Edit, flags.Tree),
		Action: func(c *command.Line) error {
			for _, t := range editors.Tools() {
				for _, f := range t.Flags {
					if c.IsSet(f.Name) && !slices.Contains(c.StringSlice("tool"), t.Name) {
						return command.Misusef("--%s is for %s: give --tool %s too", f.Name, t.Name, t.Name)
					}
				}
			}
			if c.Bool("opened") != c.IsSet("libs") {
				return command.Misuse("--opened and --libs DIR go together")
			}
			return editors.Files(c, c.Args, func(e *editors.Editor) error {
				e.Opened = c.StringSlice("libs")
				return e.Apply(c.StringSlice("tool"))
			})
		},
	}
}
