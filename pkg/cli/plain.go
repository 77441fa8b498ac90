package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"
)

// plain reads a command line that has nothing but flags of the app or of one of its
// commands, each with a single value, and arguments, flags first; or --version alone. It
// returns what carries it out, or nil where cli has the answer: --help, a list flag, an
// unknown flag or command, a value that is wrong.
//
// Packages call a tool once for each file. There, what cli does for each flag before it
// reads the first one (a regular expression on the name, the environment, categories for
// the help) takes longer than the edit. The flags are the same definitions.
func plain(ctx context.Context, app *cli.App, args []string) func() error {
	if len(args) == 3 && args[1] == "--version" && args[2] == "--" {
		return func() error { return printVersion(app) }
	}
	if len(args) == 0 || completes(args) {
		return nil
	}
	command, args := leaf(app, args)
	if command == nil {
		return nil
	}
	set := flag.NewFlagSet(app.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	for _, f := range command.Flags {
		if !define(set, f) {
			return nil
		}
	}
	if set.Parse(args[1:]) != nil || isSet(set, "man") || isSet(set, "completion") {
		return nil
	}
	for _, f := range command.Flags {
		all := names(f)
		for _, alias := range all[1:] {
			if !isSet(set, alias) {
				continue
			}
			if isSet(set, all[0]) || set.Set(all[0], set.Lookup(alias).Value.String()) != nil {
				return nil
			}
		}
	}
	// The app without its flags: cli would look through them.
	c := cli.NewContext(&cli.App{Name: app.Name, Writer: app.Writer, ErrWriter: app.ErrWriter}, set, nil)
	c.Context, c.Command = ctx, command
	return func() error { return command.Action(c) }
}

// leaf returns the command that a command line names, with the name that its help goes by,
// and the command line from its own name on. For an app without commands that is the app's
// action. It returns nil where there is no such command, or cli does more for it.
func leaf(app *cli.App, args []string) (*cli.Command, []string) {
	found := &cli.Command{Name: app.Name, HelpName: app.HelpName, Flags: app.Flags, Action: app.Action}
	for commands := app.Commands; commands != nil; commands = found.Subcommands {
		if len(args) < 2 {
			return nil, nil
		}
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[1]) })
		if i < 0 || commands[i].Before != nil || commands[i].After != nil || commands[i].SkipFlagParsing {
			return nil, nil
		}
		name := found.HelpName + " " + commands[i].Name
		found, args = new(cli.Command), args[1:]
		*found = *commands[i]
		found.HelpName = name
	}
	return found, args
}

func printVersion(app *cli.App) error {
	_, err := fmt.Fprintf(app.Writer, "%s version %s\n", app.Name, app.Version)
	return err
}

// define makes flags of the set from a definition. It reports whether it knows the kind.
func define(set *flag.FlagSet, f cli.Flag) bool {
	for _, name := range names(f) {
		switch f := f.(type) {
		case *cli.BoolFlag:
			set.Bool(name, f.Value, "")
		case *cli.StringFlag:
			set.String(name, f.Value, "")
		case *cli.IntFlag:
			set.Int(name, f.Value, "")
		case *cli.StringSliceFlag:
			set.Var(list{}, name, "")
		default:
			return false
		}
	}
	return true
}

// list is a list flag that is not given. One that is given is left to cli.
type list struct{}

func (list) String() string   { return "" }
func (list) Set(string) error { return errors.New("a list") }

func isSet(set *flag.FlagSet, name string) (is bool) {
	set.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// names returns the names of a flag, as its own method Names does without a regular
// expression on each.
func names(f cli.Flag) []string {
	switch f := f.(type) {
	case *cli.BoolFlag:
		return append([]string{f.Name}, f.Aliases...)
	case *cli.StringFlag:
		return append([]string{f.Name}, f.Aliases...)
	case *cli.IntFlag:
		return append([]string{f.Name}, f.Aliases...)
	case *cli.StringSliceFlag:
		return append([]string{f.Name}, f.Aliases...)
	}
	return f.Names()
}
