package hostdriver

import (
	"fmt"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host"
)

var findCommand = &command.Command{
	Name:     "find",
	Usage:    "show the host's driver: its version and its libraries",
	Examples: "hostDriver find --verbose",
	Description: `Looks in the loader's cache and in the places that distributions, WSL, Jetson and containers use.
Stubs for linking, compat packages, libraries for other machines and files that someone else could
replace are left out.`,
	Flags: []*command.Flag{rootFlag, machineFlag, fromFlag, jsonFlag, verboseFlag},
	Action: on(func(c *call) error {
		all, findErr := c.drivers(c.host)
		if c.Bool("json") {
			fields := map[string]any{"drivers": all, "error": nil}
			if findErr != nil {
				fields["drivers"], fields["error"] = []any{}, findErr.Error()
				fields["rejected"] = all[0].Rejected
			}
			if err := c.printJSON(fields); err != nil {
				return err
			}
		}
		for _, d := range all {
			if findErr == nil && !c.Bool("json") {
				c.show(d)
			}
			for _, place := range d.Looked {
				if c.Bool("verbose") {
					c.complain("looked in %s", place)
				}
			}
			for _, r := range d.Rejected {
				if c.Bool("verbose") || findErr != nil {
					c.complain("%s: not used: %s", command.Printable(r.Path), command.Printable(r.Reason))
				}
			}
		}
		if findErr != nil {
			return findErr
		}
		return nil
	}),
}

func (c *call) show(d *host.Driver) {
	version := d.Version
	if version == "" {
		version = "(version unknown)"
	}
	fmt.Fprintf(c.Stdout, "%s driver %s in %s (%s)\n", d.Machine, version, command.Printable(d.Directory),
		command.Printable(d.Source))
	for _, lib := range d.Libraries {
		fmt.Fprintf(c.Stdout, "  %-34s %-9s %s\n", command.Printable(lib.Soname), lib.Class, command.Printable(lib.File))
	}
	for _, n := range d.Needs {
		at := command.Printable(n.Path)
		if at == "" {
			at = "MISSING"
		}
		fmt.Fprintf(c.Stdout, "  %-34s %-9s %s (for %s)\n", command.Printable(n.Soname), "host's", at,
			command.Printable(strings.Join(n.By, ", ")))
	}
	if c.Bool("verbose") {
		for _, o := range d.Others {
			c.complain("%s: another driver, not used", command.Printable(o))
		}
	}
}
