// Package urfave reads the command lines of commands with urfave/cli, which also answers
// --help, completes, prints man pages and knows mistakes.
package urfave

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli/command"
)

// Main runs a program on the process's arguments and exits.
func Main(program *command.Command) {
	os.Exit(Run(program, os.Args, os.Stdout, os.Stderr))
}

// Run carries out a program's command line and returns the exit status.
func Run(program *command.Command, args []string, stdout, stderr io.Writer) (status int) {
	return command.Run(program, args, stdout, stderr, func(ctx context.Context, args []string, stdout io.Writer) error {
		err := newApp(program, stdout, stderr).RunContext(ctx, args)
		if errors.Is(err, errDone) {
			return nil
		}
		return err
	})
}

// newApp returns an app that answers as every program here does to --help, --version, a
// shell that completes, and [command.DocumentFlags].
func newApp(program *command.Command, stdout, stderr io.Writer) *cli.App {
	cli.VersionFlag = &cli.BoolFlag{Name: "version", DisableDefaultText: true, Usage: "print the version"}
	return &cli.App{
		Name:                      program.Name,
		HelpName:                  program.Name,
		Usage:                     program.Usage,
		ArgsUsage:                 program.ArgsUsage,
		UsageText:                 program.Synopsis(program.Name),
		Description:               program.Description,
		Version:                   program.Version,
		Compiled:                  time.Unix(0, 0), // else cli looks at the program's file
		HideHelpCommand:           program.Commands == nil,
		UseShortOptionHandling:    true,
		DisableSliceFlagSeparator: true, // a list flag is repeated; file names may hold commas
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return command.MeantFlag(program.Flags, err) },
		Flags:                     flags(program.Flags),
		Commands:                  commands(program.Commands),
		Before: func(c *cli.Context) error {
			done, err := document(program, c)
			if err == nil && done {
				err = errDone
			}
			return err
		},
		Action:    action(program),
		Writer:    stdout,
		ErrWriter: stderr,
	}
}

var errDone = errors.New("done")

// commands sets for each what cli does not let it inherit from the app. With a help
// command of its own, "runpath show help" would not touch the file of that name.
func commands(all []*command.Command) []*cli.Command {
	var out []*cli.Command
	for _, c := range all {
		out = append(out, &cli.Command{
			Name:                   c.Name,
			Usage:                  c.Usage,
			UsageText:              c.UsageText,
			ArgsUsage:              c.ArgsUsage,
			Description:            c.Description,
			HideHelpCommand:        true,
			UseShortOptionHandling: true,
			OnUsageError: func(ctx *cli.Context, err error, _ bool) error {
				return command.Of(ctx.Command.HelpName, command.MeantFlag(c.Flags, err))
			},
			Flags:       flags(c.Flags),
			Subcommands: commands(c.Commands),
			Action:      func(ctx *cli.Context) error { return command.Of(ctx.Command.HelpName, action(c)(ctx)) },
		})
	}
	return out
}

// action carries a command out, or says that none of those is named that it is made of.
func action(c *command.Command) cli.ActionFunc {
	do := c.Action
	if do == nil {
		do = c.NoCommand
	}
	return func(ctx *cli.Context) error {
		l := line(ctx)
		l.Flags = c.Flags
		if err := l.Check(); err != nil {
			return err
		}
		return do(l)
	}
}

func flags(all []*command.Flag) []cli.Flag {
	var out []cli.Flag
	for _, f := range all {
		switch f.Kind {
		case command.Bool:
			out = append(out, &cli.BoolFlag{Name: f.Name, Aliases: f.Aliases, Usage: f.Usage, Hidden: f.Hidden,
				DefaultText: f.DefaultText, DisableDefaultText: f.DefaultText == ""})
		case command.String:
			out = append(out, &cli.StringFlag{Name: f.Name, Aliases: f.Aliases, Usage: f.Usage, Hidden: f.Hidden,
				DefaultText: f.DefaultText, Value: f.Default})
		case command.Int:
			out = append(out, &cli.IntFlag{Name: f.Name, Aliases: f.Aliases, Usage: f.Usage, Hidden: f.Hidden, DefaultText: f.DefaultText})
		case command.List:
			out = append(out, &cli.StringSliceFlag{Name: f.Name, Aliases: f.Aliases, Usage: f.Usage, Hidden: f.Hidden,
				DefaultText: f.DefaultText, KeepSpace: true})
		}
	}
	return out
}

// line is what cli read.
func line(c *cli.Context) *command.Line {
	return &command.Line{
		Context: c.Context,
		Command: c.Command.Name,
		Stdout:  c.App.Writer,
		Stderr:  c.App.ErrWriter,
		Args:    c.Args().Slice(),
		Values:  c,
	}
}
