package hostdriver

import (
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/host"
)

var find = &urfave.Command{
	Name:  "find",
	Usage: "show the host's driver: its version and its libraries",
	Description: `Looks in the loader's cache and in the places that distributions, WSL, Jetson and containers use. Stubs for linking,
compat packages, libraries for other machines and files that someone else could replace are left out.`,
	Flags: []urfave.Flag{rootFlag, machineFlag, fromFlag, jsonFlag, verboseFlag},
	Action: func(c *urfave.Context) error {
		if err := noArguments(c); err != nil {
			return err
		}
		h, m, err := system(c)
		if err != nil {
			return err
		}
		all, findErr := drivers(c, h, m)
		if c.Bool("json") {
			fields := map[string]any{"drivers": all, "error": nil}
			if findErr != nil {
				fields["drivers"], fields["error"] = []any{}, findErr.Error()
				fields["rejected"] = all[0].Rejected
			}
			if err := printJSON(c, fields); err != nil {
				return err
			}
		}
		for _, d := range all {
			if findErr == nil && !c.Bool("json") {
				show(c, d)
			}
			for _, r := range d.Rejected {
				if c.Bool("verbose") || findErr != nil {
					complain(c, "%s: not used: %s", cli.Printable(r.Path), cli.Printable(r.Reason))
				}
			}
		}
		if findErr != nil {
			complain(c, "%v", findErr)
			return cli.ErrFailed
		}
		return nil
	},
}

func show(c *urfave.Context, d *host.Driver) {
	version := d.Version
	if version == "" {
		version = "(version unknown)"
	}
	fmt.Fprintf(c.App.Writer, "%s driver %s in %s (%s)\n", d.Machine, version, cli.Printable(d.Directory), cli.Printable(d.Source))
	for _, lib := range d.Libraries {
		fmt.Fprintf(c.App.Writer, "  %-34s %-9s %s\n", cli.Printable(lib.Soname), lib.Class, cli.Printable(lib.File))
	}
	for _, n := range d.Needs {
		at := cli.Printable(n.Path)
		if at == "" {
			at = "MISSING"
		}
		fmt.Fprintf(c.App.Writer, "  %-34s %-9s %s (for %s)\n", cli.Printable(n.Soname), "host's", at, cli.Printable(strings.Join(n.By, ", ")))
	}
	if c.Bool("verbose") {
		for _, o := range d.Others {
			complain(c, "%s: another driver, not used", cli.Printable(o))
		}
	}
}
