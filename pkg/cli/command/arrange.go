package command

import "strings"

// flagsFirst moves flags before the arguments, which is where they are looked for.
func flagsFirst(flags []*Flag, commands []*Command, args []string) []string {
	if len(args) == 0 {
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
