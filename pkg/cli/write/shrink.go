package write

import (
	"os"
	"slices"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/runpath"
)

// shrink returns the command that drops the entries which a file makes no use of.
func shrink() *command.Command {
	return &command.Command{
		Name:   "shrink",
		Also:   []string{"shrink-rpath"},
		Usage:  "remove entries in which the loader finds nothing needed",
		Common: []string{"keep", "driver-link", "dry-run", "json", "verbose"},
		Examples: `runpath shrink --dry-run app
runpath shrink --keep /opt/plugins app`,
		ArgsUsage: "PATH...",
		Description: `An absolute entry stays where it is the first to hold a library that the file needs (DT_NEEDED),
may open (.note.dlopen), or names in read-only data. Relative entries and those with $ORIGIN, $LIB or $PLATFORM stay,
and so do the driver link and compat directories. An entry below a temporary directory ($NIX_BUILD_TOP, else $TMPDIR,
/build and /tmp) stays only for a library that no other entry holds.`,
		Flags: slices.Concat([]*command.Flag{
			{Kind: command.List, Name: "keep", Usage: "keep `ENTRY`, whatever it holds (repeatable)"},
			flags.DriverLink, flags.Compat,
			flags.ForceRPath,
			flags.KeepEmpty,
			flags.Store, flags.EvenInStore, command.DryRunFlag,
		}, flags.Writing, flags.Tree),
		Action: func(c *command.Line) error {
			return editors.Files(c, c.Args, func(e *editors.Editor) error {
				keep := append(c.StringSlice("keep"), driver.Link, driver.Link32, e.DriverLink, e.Compat)
				e.Temporary = temporaryDirs()
				e.Shrink = func(entry string) bool {
					return entry != "" && slices.ContainsFunc(keep, func(k string) bool {
						return runpath.Key(k) == runpath.Key(entry)
					})
				}
				return nil
			})
		},
	}
}

// temporaryDirs returns the directories that are gone after a build: where a Nix build
// works, and outside of one those for temporary files.
func temporaryDirs() []string {
	if top := os.Getenv("NIX_BUILD_TOP"); top != "" {
		return []string{top}
	}
	return []string{os.Getenv("TMPDIR"), "/build", "/tmp"}
}
