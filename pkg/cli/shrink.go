package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/runpath"
)

// shrinkCommand returns the command that drops the entries which a file makes no use of.
func shrinkCommand() *cli.Command {
	return &cli.Command{
		Name:      "shrink",
		Usage:     "remove entries in which the loader finds nothing that the file asks for",
		ArgsUsage: "PATH...",
		Description: `An absolute entry stays where it is the first to hold a library that the file needs (DT_NEEDED), may open
(.note.dlopen), or names in read-only data. Relative entries and those with $ORIGIN, $LIB or $PLATFORM stay, and so do the
driver link and compat directories. An entry below a temporary directory ($NIX_BUILD_TOP, else $TMPDIR, /build and /tmp)
stays only for a library that no other entry holds.`,
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{KeepSpace: true, Name: "keep", Usage: "`ENTRY` stays, whatever it holds (repeatable)"},
			driverLinkFlag(), compatFlag(),
			&cli.BoolFlag{Name: "force-rpath", DisableDefaultText: true, Usage: "write DT_RPATH instead of DT_RUNPATH"},
			&cli.BoolFlag{Name: "keep-empty", DisableDefaultText: true, Usage: "keep empty entries, which make the loader search the working directory"},
			DryRunFlag(),
		}, treeFlags()...),
		Action: func(c *cli.Context) error {
			session, err := start(c, c.Args().Slice())
			if err != nil {
				return err
			}
			editor, err := newEditor(c)
			if err != nil {
				return err
			}
			keep := append(c.StringSlice("keep"), driver.Link, driver.Link32, editor.DriverLink, editor.Compat)
			editor.Shrink = func(e string) bool {
				return e != "" && slices.ContainsFunc(keep, func(k string) bool { return runpath.Key(k) == runpath.Key(e) })
			}
			return editor.run(session)
		},
	}
}

// shrink drops what the file makes no use of, beside what [editor.Shrink] keeps.
func (e *editor) shrink(im *elfimage.Image, path string, before runpath.List) (runpath.List, runpath.Notes, error) {
	names, err := im.Needed()
	if err != nil {
		return nil, runpath.Notes{}, err
	}
	notes, err := im.DlopenNotes()
	if err != nil {
		return nil, runpath.Notes{}, err
	}
	for _, n := range notes {
		names = append(names, n.Sonames...)
	}
	seen := map[string]bool{}
	err = im.LibraryStrings(func(name string, exact bool) bool {
		if exact && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		return len(seen) < 4096
	})
	if err != nil {
		return nil, runpath.Notes{}, err
	}
	origin := newOrigin(path)
	after, dropped := runpath.Shrink(before, runpath.Use{
		Names: names,
		Holds: func(entry, name string) bool {
			return e.dirs.holds(origin.expand(entry), name, im.Class, im.Machine)
		},
		Keep: func(entry string) bool {
			return e.Shrink(entry) || driver.CompatDirs{}.Contains(runpath.Key(entry), func(name string) bool { return e.dirs.has(origin.expand(entry), name) })
		},
		Temporary: temporary,
	})
	n := runpath.Notes{Unused: dropped, Empties: before.Empties()}
	if !e.KeepEmpty {
		after = slices.DeleteFunc(after, func(entry string) bool { return entry == "" })
	}
	return after, n, nil
}

// temporary reports whether a directory is one of those that are gone after a build:
// in the one where a Nix build works, and outside of one in those for temporary files.
func temporary(entry string) bool {
	dirs := []string{os.Getenv("NIX_BUILD_TOP")}
	if dirs[0] == "" {
		dirs = []string{os.Getenv("TMPDIR"), "/build", "/tmp"}
	}
	for _, dir := range dirs {
		if dir = strings.TrimRight(dir, "/"); dir != "" && strings.HasPrefix(entry, dir+"/") {
			return true
		}
	}
	return false
}
