package main

import (
	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader"
)

var auditCommand = &urfave.Command{
	Name:      "audit",
	Usage:     "report everything that is wrong with the run paths of files, directories or store paths",
	ArgsUsage: "PATH...",
	Flags: append([]urfave.Flag{
		&urfave.BoolFlag{Name: "closure", DisableDefaultText: true, Usage: "the PATHs are in a Nix store: examine all that they need (nix-store -qR)"},
		&urfave.StringFlag{Name: "html", Usage: "write a page with a table of the findings and each file's libraries to `FILE`"},
		&urfave.StringFlag{Name: "sarif", Usage: "write the findings as SARIF 2.1.0, for code scanning, to `FILE`"},
		&urfave.StringFlag{Name: "baseline", Usage: "the findings in `FILE` are accepted"},
		&urfave.BoolFlag{Name: "update-baseline", DisableDefaultText: true, Usage: "write all findings to the --baseline file, which accepts them"},
		&urfave.BoolFlag{Name: "nix", DisableDefaultText: true, Usage: "the files are a Nix package's although they are not in a store"},
		cli.IgnoreFlag(), cli.StrictFlag(), cli.AssumeDriverFlag(), cli.CPUFlag(),
	}, append(cli.SearchFlags(), cli.Flags()...)...),
	Action: func(c *urfave.Context) error {
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
			Nix:        c.Bool("nix"),
		}
		if err := cli.CheckLayout(c); err != nil {
			return err
		}
		if err := options.Validate(); err != nil {
			return err
		}
		output := audit.Output{SARIF: c.String("sarif"), HTML: c.String("html"), Baseline: c.String("baseline"), UpdateBaseline: c.Bool("update-baseline")}
		if output.UpdateBaseline && output.Baseline == "" {
			return cli.Misuse("--update-baseline needs --baseline FILE")
		}
		if c.Bool("closure") {
			if session.Paths, err = audit.Closure(session.Paths); err != nil {
				return err
			}
		}
		search, err := loaderOptions(c)
		if err != nil {
			return err
		}
		l, err := loader.New(search)
		if err != nil {
			return err
		}
		return audit.Run(session, audit.New(l, options), output)
	},
}
