package cli

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/runpath"
)

// listCommands returns the commands that write a run path as given: set, add and remove.
func listCommands() []*command.Command {
	return []*command.Command{{
		Name:      "set",
		Usage:     "write LIST, entries separated by colons, as the run path",
		ArgsUsage: "LIST PATH...",
		Flags:     slices.Concat(listFlags, treeFlags),
		Action: func(c *command.Line) error {
			if len(c.Args) < 2 {
				return command.Misuse("set takes a LIST and the files")
			}
			list := runpath.Parse(c.Arg(0))
			return rewrite(c, c.Args[1:], func(runpath.List) runpath.List { return list })
		},
	}, {
		Name:      "add",
		Usage:     "add ENTRY to the end of the run path, unless it is already there",
		ArgsUsage: "ENTRY PATH...",
		Flags: append(append([]*command.Flag{
			{Name: "first", Usage: "put it first, or move it there"},
		}, listFlags...), treeFlags...),
		Action: func(c *command.Line) error {
			if len(c.Args) < 2 {
				return command.Misuse("add takes an ENTRY and the files")
			}
			entry, first := c.Arg(0), c.Bool("first")
			if entry == "" && !c.Bool("keep-empty") {
				return command.Misuse("an empty ENTRY is the working directory; give --keep-empty if that is meant")
			}
			if strings.Contains(entry, ":") {
				return command.Misusef("ENTRY %q has a colon, which separates entries: add one at a time", entry)
			}
			return rewrite(c, c.Args[1:], func(l runpath.List) runpath.List {
				switch {
				case first:
					return append(runpath.List{entry}, l.Without(entry)...)
				case len(l.Without(entry)) < len(l):
					return l
				}
				return append(slices.Clone(l), entry)
			})
		},
	}, {
		Name:      "remove",
		Usage:     "remove the run path, or with --entry only those entries",
		ArgsUsage: "PATH...",
		Flags: append(append([]*command.Flag{
			{Kind: command.List, Name: "entry", Usage: "remove `ENTRY` and keep the others (repeatable)"},
		}, listFlags...), treeFlags...),
		Action: func(c *command.Line) error {
			if !c.IsSet("entry") {
				for _, flag := range []string{"force-rpath", "keep-empty", "dedupe"} {
					if c.IsSet(flag) {
						return command.Misusef("--%s applies to the entries that stay: give --entry too, or all are removed", flag)
					}
				}
				return rewrite(c, c.Args, func(runpath.List) runpath.List { return nil })
			}
			entries := c.StringSlice("entry")
			for _, entry := range entries {
				if strings.Contains(entry, ":") {
					return command.Misusef("--entry %q has a colon, which separates entries: repeat --entry", entry)
				}
			}
			return rewrite(c, c.Args, func(l runpath.List) runpath.List { return l.Without(entries...) })
		},
	}}
}

// rewrite lets a function rewrite the run path of each file.
func rewrite(c *command.Line, paths []string, f func(runpath.List) runpath.List) error {
	session, err := start(c, paths)
	if err != nil {
		return err
	}
	editor, err := newEditor(c)
	if err != nil {
		return err
	}
	editor.Rewrite = f
	return editor.run(session)
}
