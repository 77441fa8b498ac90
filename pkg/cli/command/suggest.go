package command

import (
	"os"
	"slices"
	"strings"
)

// NoCommand is the action of what is made of commands, where none of them is named.
func (c *Command) NoCommand(l *Line) error {
	if len(l.Args) == 0 {
		return Misuse("no command is given")
	}
	return c.noCommand(l.Args[0])
}

// noCommand says that a word is no command, and which one may be meant.
func (c *Command) noCommand(word string) error {
	if meant := c.meant(word); meant != "" {
		return Misusef("there is no command %q: did you mean %s?", word, meant)
	}
	return Misusef("there is no command %q", word)
}

// meant returns the command, or the command line, that a word stands for which is none; ""
// where there is no telling.
func (c *Command) meant(word string) string {
	var names []string
	for _, sub := range c.Commands {
		if slices.Contains(sub.Also, word) {
			return sub.Name
		}
		names = append(names, sub.Name)
	}
	if _, err := os.Stat(word); err == nil && c.OfFile != "" {
		return c.Name + " " + c.OfFile + " " + Printable(word)
	}
	return closest(word, names)
}

// MeantFlag adds to the error of a flag that there is not which one may be meant.
func MeantFlag(flags []*Flag, err error) Misuse {
	text := err.Error()
	if _, name, ok := strings.Cut(text, "not defined: -"); ok {
		if text = "there is no flag -" + name; len(name) > 1 {
			text = "there is no flag --" + name
		}
		var names []string
		for _, f := range flags {
			if !f.Hidden {
				names = append(append(names, f.Name), f.Aliases...)
			}
		}
		if meant := closest(strings.Trim(name, "-"), names); meant != "" {
			text += ": did you mean --" + meant + "?"
		}
	}
	return Misuse(text)
}

// Swallowed names the flags whose values are files, where there is no argument: "; --lib took
// "prog"".
func (l *Line) Swallowed() (said string) {
	for _, f := range l.Flags {
		for _, value := range l.given(f) {
			if _, err := os.Stat(value); err == nil {
				said += "; --" + f.Name + " took " + Printable(value)
			}
		}
	}
	return said
}

// closest returns the one of some names that differs least from a word, in two letters (of a
// long word a third) at most; "" for none.
func closest(word string, names []string) (best string) {
	least := max(min(2, len(word)/2), len(word)/3) + 1
	for _, name := range names {
		if d := distance(word, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many letters have to be put in, taken out or replaced (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above, left of the one that is computed
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
