package main

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/runpath"
)

var set = &urfave.Command{
	Name:      "set",
	Usage:     "write LIST, entries separated by colons, as the run path",
	ArgsUsage: "LIST PATH...",
	Flags:     append(cli.EditFlags(), cli.Flags()...),
	Action: func(c *urfave.Context) error {
		if c.Args().Len() < 2 {
			return cli.Misuse("set takes a LIST and the files")
		}
		list := runpath.Parse(c.Args().First())
		return edit(c, c.Args().Tail(), func(runpath.List) runpath.List { return list })
	},
}

var remove = &urfave.Command{
	Name:      "remove",
	Usage:     "leave files with no run path",
	ArgsUsage: "PATH...",
	Flags:     append(cli.EditFlags(), cli.Flags()...),
	Action: func(c *urfave.Context) error {
		return edit(c, c.Args().Slice(), func(runpath.List) runpath.List { return nil })
	},
}

var add = &urfave.Command{
	Name:      "add",
	Usage:     "add ENTRY to the end of the run path, unless it is there",
	ArgsUsage: "ENTRY PATH...",
	Flags: append(append([]urfave.Flag{
		&urfave.BoolFlag{Name: "first", DisableDefaultText: true, Usage: "put it first, or move it there"},
	}, cli.EditFlags()...), cli.Flags()...),
	Action: func(c *urfave.Context) error {
		if c.Args().Len() < 2 {
			return cli.Misuse("add takes an ENTRY and the files")
		}
		entry, first := c.Args().First(), c.Bool("first")
		if entry == "" && !c.Bool("keep-empty") {
			return cli.Misuse("an empty ENTRY is the working directory; --keep-empty if that is meant")
		}
		if strings.Contains(entry, ":") {
			return cli.Misusef("ENTRY %q has a colon, which separates entries: add one at a time", entry)
		}
		isEntry := func(e string) bool { return runpath.Key(e) == runpath.Key(entry) }
		return edit(c, c.Args().Tail(), func(l runpath.List) runpath.List {
			switch {
			case first:
				return append(runpath.List{entry}, slices.DeleteFunc(slices.Clone(l), isEntry)...)
			case slices.ContainsFunc(l, isEntry):
				return l
			}
			return append(slices.Clone(l), entry)
		})
	},
}

func edit(c *urfave.Context, paths []string, rewrite func(runpath.List) runpath.List) error {
	session, err := cli.Start(c, paths)
	if err != nil {
		return err
	}
	editor, err := cli.NewEditor(c)
	if err != nil {
		return err
	}
	editor.Rewrite = rewrite
	return editor.Run(session)
}
