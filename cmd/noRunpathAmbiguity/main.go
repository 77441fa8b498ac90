// Command noRunpathAmbiguity checks that a run path leaves no doubt about which
// file the loader takes for a library.
package main

import (
	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader"
)

func main() {
	app := cli.New("noRunpathAmbiguity", "PATH...", "check that run paths are not ambiguous", `
A run path is ambiguous for a library where two or more of its directories hold different files of that name, for the
file's machine: then the order of the entries alone decides which one is loaded. That is an error for a name that the file
asks for (DT_NEEDED, a .note.dlopen note, a name among its constants), else a warning. A stub directory, an empty entry,
and the driver link before a compat directory are errors too.

The report names the file, the library, each candidate with its position, which one wins, and how to settle it. A library
that both a compat directory and the driver link provide is not ambiguous when they stand in that order. Warnings alone are no failure.`+cli.ExitStatus)
	app.Flags = append(append(append(app.Flags, cli.IgnoreFlag(), cli.StrictFlag()), cli.SearchFlags()...), cli.Flags()...)
	app.Action = func(c *urfave.Context) error {
		session, err := cli.Start(c, c.Args().Slice())
		if err != nil {
			return err
		}
		options := audit.Options{
			DriverLink: c.String("driver-link"),
			Compat:     c.String("compat"),
			StubDirs:   driver.StubDirs{Patterns: c.StringSlice("stub")},
			Ignore:     c.StringSlice("ignore"),
			Strict:     c.Bool("strict"),
		}
		if err := cli.CheckLayout(c); err != nil {
			return err
		}
		if err := options.Validate(); err != nil {
			return err
		}
		l, err := loader.New(loader.Options{NoTries: true})
		if err != nil {
			return err
		}
		return audit.Check(session, audit.New(l, options))
	}
	cli.Main(app)
}
