package main

import (
	"os"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/loader"
)

var explainCommand = &urfave.Command{
	Name:      "explain",
	Usage:     "show which libraries the loader would find, where, by which rule, and where it looked before; the files are not run",
	ArgsUsage: "FILE...",
	Flags: append([]urfave.Flag{
		&urfave.StringFlag{Name: "lib", Usage: "tell only of the library `NAME`, whether the file asks for it or would open it"},
		&urfave.StringSliceFlag{Name: "env", Usage: "set `VAR=VALUE`: LD_LIBRARY_PATH or LD_PRELOAD; without =VALUE, as it is set now"},
		&urfave.BoolFlag{Name: "no-dlopen", DisableDefaultText: true, Usage: "leave out what may be opened later with dlopen"},
		&urfave.BoolFlag{Name: "dot", DisableDefaultText: true, Usage: "print a graph for Graphviz"},
		cli.RootFlag(), cli.AssumeDriverFlag(), cli.CPUFlag(), cli.JSONFlag(),
		cli.VerboseFlag("also follow names that a library only might open"),
		cli.QuietFlag("leave out where the loader looked before"),
	}, cli.SearchFlags()...),
	Action: func(c *urfave.Context) error {
		session, err := cli.Start(c, c.Args().Slice())
		if err != nil {
			return err
		}
		if err := cli.CheckLayout(c); err != nil {
			return err
		}
		options, err := loaderOptions(c)
		if err != nil {
			return err
		}
		l, err := loader.New(options)
		if err != nil {
			return err
		}
		return explain.Run(session, l, explain.Options{
			Layout: explain.Layout{DriverLink: c.String("driver-link"), Compat: c.String("compat"),
				StubDirs: driver.StubDirs{Patterns: c.StringSlice("stub")}, Assumed: c.String("assume-driver")},
			Lib: c.String("lib"), Dot: c.Bool("dot"), NoDlopen: c.Bool("no-dlopen"),
		})
	},
}

// loaderOptions reads the flags that the search depends on.
func loaderOptions(c *urfave.Context) (loader.Options, error) {
	o := loader.Options{Root: c.String("root"), AssumeDriver: c.String("assume-driver"), DriverLink: c.String("driver-link"), CPU: c.String("cpu")}
	if o.CPU != "native" && o.CPU != "baseline" && !slices.Contains(loader.CPUNames, o.CPU) {
		return o, cli.Misusef("--cpu %s: native, baseline, %s", o.CPU, strings.Join(loader.CPUNames, ", "))
	}
	for _, assignment := range c.StringSlice("env") {
		name, value, given := strings.Cut(assignment, "=")
		if !given {
			value = os.Getenv(name)
		}
		switch name {
		case "LD_LIBRARY_PATH":
			o.LibraryPath = value
		case "LD_PRELOAD":
			o.Preload = value
		default:
			return o, cli.Misusef("--env %s: only LD_LIBRARY_PATH and LD_PRELOAD are understood", assignment)
		}
	}
	return o, nil
}
