package command

import (
	"slices"
	"strconv"
	"strings"
)

// Plain reads a program's command line that has nothing but flags of the one command that
// it names, each with a single value, and arguments, flags first; or --version alone. It
// returns the command, with the words that lead to it, or nil where urfave/cli has the
// answer: --help, --man, a list flag, an unknown flag or command, a value that is wrong.
func Plain(app *Command, args []string) (c *Command, words string, l *Line) {
	if len(args) == 3 && args[1] == "--version" && args[2] == "--" {
		version := &Command{Name: app.Name, Brief: true, Action: func(l *Line) error { return PrintVersion(app, l) }}
		return version, app.Name, &Line{Program: app.Name, Command: app.Name, Values: &values{}}
	}
	if len(args) == 0 || Completes(args) {
		return nil, "", nil
	}
	c, words, args = leaf(app, args)
	if c == nil || c.Action == nil {
		return nil, "", nil
	}
	given, args, ok := read(c.Flags, args[1:])
	if !ok || given.IsSet("man") || given.IsSet("completion") {
		return nil, "", nil
	}
	return c, words, &Line{Program: app.Name, Command: c.Name, Args: args, Values: given}
}

// leaf returns the command that a command line names, the words that lead to it ("runpath
// needed add"), and the command line from its own name on; nil where there is no such command.
func leaf(app *Command, args []string) (*Command, string, []string) {
	found, words := app, app.Name
	for found.Commands != nil {
		if len(args) < 2 {
			return nil, "", nil
		}
		i := slices.IndexFunc(found.Commands, func(c *Command) bool { return c.Name == args[1] })
		if i < 0 {
			return nil, "", nil
		}
		found, args = found.Commands[i], args[1:]
		words += " " + found.Name
	}
	return found, words, args
}

// read reads flags, and returns the arguments after them. It takes for flags and values what
// Go's package flag does, which urfave/cli reads with.
func read(flags []*Flag, args []string) (v *values, rest []string, ok bool) {
	v = &values{flags: flags}
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		args = args[1:]
		if arg == "--" {
			break
		}
		name, text, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		f := find(flags, name)
		if f == nil || f.Kind == List {
			return nil, nil, false
		}
		if !hasValue && f.Kind != Bool {
			if len(args) == 0 {
				return nil, nil, false
			}
			text, args = args[0], args[1:]
		}
		given := v.of(f)
		if given.alias != "" && given.alias != name { // it is given by two of its names
			return nil, nil, false
		}
		given.alias, given.text, given.on = name, text, true
		var err error
		switch {
		case f.Kind == Int:
			var n int64
			n, err = strconv.ParseInt(text, 0, strconv.IntSize)
			given.n = int(n)
		case f.Kind == Bool && hasValue:
			given.on, err = strconv.ParseBool(text)
		}
		if err != nil {
			return nil, nil, false
		}
	}
	return v, args, true
}

// Completes reports whether a shell asks which words fit.
func Completes(args []string) bool {
	return len(args) > 0 && args[len(args)-1] == "--generate-bash-completion"
}

// flagsFirst moves flags before the arguments, which is where they are looked for.
func flagsFirst(flags []*Flag, commands []*Command, args []string) []string {
	if len(args) == 0 || Completes(args) {
		return args
	}
	ordered, rest := make([]string, 1, len(args)+1), []string(nil)
	ordered[0] = args[0]
	for i := 1; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			if commands != nil {
				// The name of a command: what follows belongs to it.
				for _, c := range commands {
					if c.Name == arg {
						return append(ordered, flagsFirst(c.Flags, c.Commands, args[i:])...)
					}
				}
				return append(ordered, args[i:]...)
			}
			rest = append(rest, arg)
			continue
		}
		ordered = append(ordered, arg)
		name := strings.TrimLeft(arg, "-") // "flag=value" is no flag's name
		if TakesValue(flags, name) {
			if i++; i == len(args) {
				return ordered // urfave/cli says that the value is missing; "--" would pass for it
			}
			ordered = append(ordered, args[i])
		}
	}
	return append(append(ordered, "--"), rest...)
}
