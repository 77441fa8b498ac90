package main

import (
	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli"
)

var show = &urfave.Command{
	Name:      "show",
	Usage:     "show run path, needed libraries, soname and interpreter, and why a tool would leave the file alone",
	ArgsUsage: "PATH...",
	Flags:     cli.Flags(),
	Action: func(c *urfave.Context) error {
		session, err := cli.Start(c, c.Args().Slice())
		if err != nil {
			return err
		}
		return cli.Show(session)
	},
}
