package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/runpath"
)

// listCommands returns the commands that write a run path as given: set, add and remove.
func listCommands() []*cli.Command {
	return []*cli.Command{{
		Name:      "set",
		Usage:     "write LIST, entries separated by colons, as the run path",
		ArgsUsage: "LIST PATH...",
		Flags:     append(listFlags(), treeFlags()...),
		Action: func(c *cli.Context) error {
			if c.Args().Len() < 2 {
				return Misuse("set takes a LIST and the files")
			}
			list := runpath.Parse(c.Args().First())
			return rewrite(c, c.Args().Tail(), func(runpath.List) runpath.List { return list })
		},
	}, {
		Name:      "add",
		Usage:     "add ENTRY to the end of the run path, unless it is already there",
		ArgsUsage: "ENTRY PATH...",
		Flags: append(append([]cli.Flag{
			&cli.BoolFlag{Name: "first", DisableDefaultText: true, Usage: "put it first, or move it there"},
		}, listFlags()...), treeFlags()...),
		Action: func(c *cli.Context) error {
			if c.Args().Len() < 2 {
				return Misuse("add takes an ENTRY and the files")
			}
			entry, first := c.Args().First(), c.Bool("first")
			if entry == "" && !c.Bool("keep-empty") {
				return Misuse("an empty ENTRY is the working directory; give --keep-empty if that is meant")
			}
			if strings.Contains(entry, ":") {
				return Misusef("ENTRY %q has a colon, which separates entries: add one at a time", entry)
			}
			return rewrite(c, c.Args().Tail(), func(l runpath.List) runpath.List {
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
		Flags: append(append([]cli.Flag{
			&cli.StringSliceFlag{KeepSpace: true, Name: "entry", Usage: "remove `ENTRY` and keep the others (repeatable)"},
		}, listFlags()...), treeFlags()...),
		Action: func(c *cli.Context) error {
			if !c.IsSet("entry") {
				for _, flag := range []string{"force-rpath", "keep-empty", "dedupe"} {
					if c.IsSet(flag) {
						return Misusef("--%s applies to the entries that stay: give --entry too, or all are removed", flag)
					}
				}
				return rewrite(c, c.Args().Slice(), func(runpath.List) runpath.List { return nil })
			}
			entries := c.StringSlice("entry")
			for _, entry := range entries {
				if strings.Contains(entry, ":") {
					return Misusef("--entry %q has a colon, which separates entries: repeat --entry", entry)
				}
			}
			return rewrite(c, c.Args().Slice(), func(l runpath.List) runpath.List { return l.Without(entries...) })
		},
	}}
}

// rewrite lets a function rewrite the run path of each file.
func rewrite(c *cli.Context, paths []string, f func(runpath.List) runpath.List) error {
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
