package main

import (
	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/command"
)

var show = &cli.Command{
	Name:      "show",
	Usage:     "show run path, needed libraries, soname and interpreter, and why a tool would leave the file alone",
	ArgsUsage: "PATH...",
	Flags:     command.Flags(),
	Action: func(c *cli.Context) error {
		session, err := command.Start(c, c.Args().Slice())
		if err != nil {
			return err
		}
		return command.Show(session)
	},
}
