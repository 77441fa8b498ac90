// Package urfave reads the command lines of commands with urfave/cli, which also answers
// --help, completes, prints man pages and knows mistakes.
package urfave

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
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
		err := newApp(program, args, stdout, stderr).RunContext(ctx, args)
		if errors.Is(err, errDone) {
			return nil
		}
		return err
	})
}

// newApp returns an app that answers as every program here does to --help, --version, a
// shell that completes, and command.documentFlags.
func newApp(program *command.Command, args []string, stdout, stderr io.Writer) *cli.App {
	cli.HelpFlag = nil // package command makes the help
	cli.VersionFlag = flags([]*command.Flag{command.VersionFlag})[0]
	return &cli.App{
		Name:                      program.Name,
		HelpName:                  program.Name,
		Version:                   program.Version,
		Compiled:                  time.Unix(0, 0), // else cli looks at the program's file
		HideHelp:                  true,
		UseShortOptionHandling:    true,
		DisableSliceFlagSeparator: true, // a list flag is repeated; file names may hold commas
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return command.MeantFlag(program.Flags, err)
		},
		Flags:    flags(slices.Concat(program.Flags, command.HelpFlags())),
		Commands: append(commands(program, args, nil, program.Commands), helpCommand(program)...),
		Before: func(c *cli.Context) error {
			if err := helped(program, c, nil); err != nil {
				return err
			}
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

// helped prints the help of the command that words lead to, and returns errDone, where that is asked for.
func helped(program *command.Command, c *cli.Context, words []string) error {
	all := c.Bool("help-all")
	if !all && !c.Bool("help") {
		return nil
	}
	return printHelp(program, c, words, all)
}

func printHelp(program *command.Command, c *cli.Context, words []string, all bool) error {
	text, err := command.Help(program, words, command.Columns(c.App.Writer), all)
	io.WriteString(c.App.Writer, text) // [command.Run] knows what could not be written
	return cmp.Or(err, errDone)
}

// helpCommand returns the command "help" of a program that is made of commands.
func helpCommand(program *command.Command) []*cli.Command {
	if program.Commands == nil {
		return nil
	}
	return []*cli.Command{{
		Name: "help", Aliases: []string{"h"}, HideHelp: true, Flags: flags(command.HelpFlags()),
		Action: func(c *cli.Context) error { return printHelp(program, c, c.Args().Slice(), c.Bool("help-all")) },
	}}
}

// commands returns those of a program's commands that the arguments may name; words lead to them. Making the flags of
// all the others took a fiftieth of a short command.
func commands(program *command.Command, args, words []string, all []*command.Command) []*cli.Command {
	var out []*cli.Command
	for _, c := range all {
		if !slices.Contains(args, c.Name) {
			continue
		}
		words := append(slices.Clone(words), c.Name)
		out = append(out, &cli.Command{
			Name:                   c.Name,
			HideHelp:               true,
			UseShortOptionHandling: true,
			OnUsageError: func(ctx *cli.Context, err error, _ bool) error {
				return command.Of(ctx.Command.HelpName, command.MeantFlag(c.Flags, err))
			},
			Flags:       flags(slices.Concat(c.Flags, command.HelpFlags())),
			Subcommands: commands(program, args, words, c.Commands),
			Before:      func(ctx *cli.Context) error { return helped(program, ctx, words) },
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
		if f.Kind == command.List { // cli tells such a flag alone, by its type, that its value is not to be split
			out = append(out, &cli.StringSliceFlag{Name: f.Name, Aliases: f.Aliases, KeepSpace: true})
			continue
		}
		out = append(out, &named{flag(f), append([]string{f.Name}, f.Aliases...)})
	}
	return out
}

// named is a flag whose names are made once. cli asks each flag for them again whenever it looks for one, and makes
// them with a regular expression, which took a twentieth of a short command.
type named struct {
	cli.Flag
	names []string
}

func (f *named) Names() []string { return f.names }

func flag(f *command.Flag) cli.Flag {
	switch {
	case f.Kind == command.String:
		return &cli.StringFlag{Name: f.Name, Aliases: f.Aliases, Value: f.Default}
	case f.Kind == command.Int:
		return &cli.IntFlag{Name: f.Name, Aliases: f.Aliases}
	case f.Values != nil:
		return &cli.GenericFlag{Name: f.Name, Aliases: f.Aliases, Value: new(word)}
	}
	return &cli.BoolFlag{Name: f.Name, Aliases: f.Aliases}
}

// word is the value of a flag that may have one, after "=": "true" where it has none.
type word string

func (w *word) Set(s string) error {
	*w = word(s)
	return nil
}

func (w *word) String() string { return string(*w) }

// IsBoolFlag makes package flag take no value from the next argument.
func (w *word) IsBoolFlag() bool { return true }

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
