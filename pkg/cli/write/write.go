// Package write has the commands of runpath that write to files: run paths as given (set, add, remove), without what
// nothing uses (shrink) or in the normal form (normalize), resolution notes (cache), and all parts that it edits (edit).
package write

import (
	"os"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/runpath"
)

// listCommon are the common flags of what writes run paths as given.
var listCommon = []string{"force-rpath", "keep-empty", "dry-run", "json", "verbose"}

// Commands returns them.
func Commands() []*command.Command {
	return append(asGiven(), cache(), editParts(), shrink(), normalize())
}

// asGiven returns the commands that write a run path as given: set, add and remove.
func asGiven() []*command.Command {
	return []*command.Command{{
		Name:      "set",
		Also:      []string{"set-rpath", "write"},
		Usage:     "write LIST, entries separated by colons, as the run path",
		Common:    listCommon,
		Examples:  "runpath set '$ORIGIN/../lib:/opt/lib' app/bin/app",
		ArgsUsage: "LIST PATH...",
		Flags:     slices.Concat(flags.List, flags.Tree),
		Action: func(c *command.Line) error {
			if len(c.Args) < 2 {
				return command.Misuse("set takes a LIST and the files")
			}
			list := runpath.Parse(c.Arg(0))
			if err := checkOrder(c, "LIST", c.Arg(0)); err != nil {
				return err
			}
			return rewrite(c, c.Args[1:], func(runpath.List) runpath.List { return list })
		},
	}, {
		Name:      "add",
		Also:      []string{"add-rpath", "append"},
		Usage:     "add ENTRY to the end of the run path, if it is not there",
		Common:    append([]string{"first"}, listCommon...),
		Examples:  "runpath add --first '$ORIGIN/../lib' app/bin",
		ArgsUsage: "ENTRY PATH...",
		Flags: append(append([]*command.Flag{
			{Name: "first", Usage: "put it first, or move it there"},
		}, flags.List...), flags.Tree...),
		Action: func(c *command.Line) error {
			if len(c.Args) < 2 {
				return command.Misuse("add takes an ENTRY and the files")
			}
			entry, first := c.Arg(0), c.Bool("first")
			if err := checkOrder(c, "ENTRY", entry); err != nil {
				return err
			}
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
		Name:   "remove",
		Also:   []string{"remove-rpath", "rm", "delete", "clear"},
		Usage:  "remove ENTRY, or with --all everything, from the run path",
		Common: append([]string{"all"}, listCommon...),
		Examples: `runpath remove /build/lib app
runpath remove --all app/bin/app`,
		ArgsUsage: "ENTRY PATH...",
		UsageText: "runpath remove [flags] ENTRY PATH...\nrunpath remove [flags] --all PATH...",
		Flags: append(append([]*command.Flag{
			{Name: "all", Usage: "remove the whole run path; there is no ENTRY then"},
		}, flags.List...), flags.Tree...),
		Action: func(c *command.Line) error {
			if c.Bool("all") {
				for _, flag := range []string{"force-rpath", "keep-empty", "dedupe"} {
					if c.IsSet(flag) {
						return command.Misusef("--%s applies to the entries that stay, and with --all none does", flag)
					}
				}
				return rewrite(c, c.Args, func(runpath.List) runpath.List { return nil })
			}
			if len(c.Args) < 2 {
				return command.Misuse(
					"remove takes an ENTRY and the files; with --all it takes the files and removes whole run paths")
			}
			entry := c.Arg(0)
			if err := checkOrder(c, "ENTRY", entry); err != nil {
				return err
			}
			if strings.Contains(entry, ":") {
				return command.Misusef(
					"ENTRY %q has a colon, which separates entries: remove one at a time, or use edit --remove-entry", entry)
			}
			return rewrite(c, c.Args[1:], func(l runpath.List) runpath.List { return l.Without(entry) })
		},
	}}
}

// checkOrder refuses what stands in the place of a run path, or of an entry, and is none:
// the files that are to be edited may stand there by mistake. edit takes everything, for
// its flags say what is what.
func checkOrder(c *command.Line, what, word string) error {
	st, err := os.Stat(word)
	switch {
	case err == nil && st.Mode().IsRegular():
		return command.Misusef("%q is a file: %s %s PATH... is the order", word, c.Command, what)
	case err != nil && word != "" && !strings.ContainsAny(word, "/$:"):
		return command.Misusef("%q is neither a directory nor a path: %s %s PATH... is the order", word, c.Command, what)
	}
	return nil
}

// rewrite lets a function rewrite the run path of each file.
func rewrite(c *command.Line, paths []string, f func(runpath.List) runpath.List) error {
	return editors.Files(c, paths, func(e *editors.Editor) error { e.Rewrite = f; return nil })
}
