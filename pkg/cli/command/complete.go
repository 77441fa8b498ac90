package command

import "strings"

// Completes reports whether a command line is a shell's question which words would fit at its end.
func Completes(args []string) bool {
	return len(args) > 0 && args[len(args)-1] == "--generate-bash-completion"
}

// Fitting returns the words that fit after those of a command line: commands, the values of a
// flag, or after "-" the flags. Names of files, which also fit, are the shell's business.
func Fitting(app *Command, words []string) (fit []string) {
	c := app
	for i := 0; i < len(words); i++ {
		word := words[i]
		if f := find(c.Flags, strings.TrimLeft(word, "-")); f != nil && word[0] == '-' && f.Kind != Bool {
			if i++; i == len(words) {
				return f.Values
			}
			continue
		}
		if word == "--" {
			return nil
		}
		for _, sub := range c.Commands {
			if sub.Name == word {
				c = sub
				break
			}
		}
	}
	if len(words) > 0 && words[len(words)-1] == "-" {
		for _, f := range c.Flags {
			if !f.Hidden {
				fit = append(fit, "--"+f.Name)
			}
		}
		return append(fit, "--help")
	}
	for _, sub := range c.Commands {
		fit = append(fit, sub.Name)
	}
	return fit
}
