package command

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// screenLines is how many lines a terminal shows at once, if it is no larger than the first ones were.
const screenLines = 24

// HelpFlags are the flags of every command that print its help.
func HelpFlags() []*Flag {
	return []*Flag{
		{Name: "help", Aliases: []string{"h"}, Usage: "print the usage and the common flags"},
		{Name: "help-all", Usage: "print everything that is in the man page"},
	}
}

// VersionFlag is every program's.
var VersionFlag = &Flag{Name: "version", Usage: "print the version"}

// Help returns what --help prints of the command that words lead to, in lines of at most so many columns: the most of
// it that [screenLines] take. all returns everything.
func Help(app *Command, words []string, columns int, all bool) (string, error) {
	c, name := app, app.Name
	for _, word := range words {
		i := slices.IndexFunc(c.Commands, func(sub *Command) bool { return sub.Name == word })
		if i < 0 {
			return "", c.noCommand(word)
		}
		c = c.Commands[i]
		name += " " + word
	}
	var text string
	for _, m := range []much{{description: true, flags: true}, {flags: true}, {}} {
		if text = c.help(name, columns, m); all || strings.Count(text, "\n") <= screenLines {
			break
		}
	}
	return text, nil
}

// much is how much a help text has, beside what every one has.
type much struct {
	description bool // and commands that are rare, and of what is made of commands the flags
	flags       bool // all, not the common ones alone
}

// shown returns all flags that are not hidden.
func (c *Command) shown() (flags []*Flag) {
	for _, f := range c.Flags {
		if !f.Hidden {
			flags = append(flags, f)
		}
	}
	if flags = append(flags, HelpFlags()...); c.Version != "" {
		flags = append(flags, VersionFlag)
	}
	return flags
}

// help puts a help text together.
func (c *Command) help(name string, columns int, m much) string {
	var b strings.Builder
	text := func(indent int, s string) { b.WriteString(Wrap(s, columns, indent)) }
	heading := func(s string) { b.WriteString("\n" + s + ":\n") }
	text(0, name+" - "+c.Usage)
	heading("USAGE")
	for line := range strings.SplitSeq(c.synopsis(name), "\n") {
		text(3, line)
	}
	if c.Examples != "" {
		heading("EXAMPLES")
		for line := range strings.SplitSeq(strings.TrimSpace(c.Examples), "\n") {
			b.WriteString("   " + line + "\n")
		}
	}
	if len(c.Commands) > 0 {
		title, width := "COMMANDS ("+name+" COMMAND --help describes one", 0
		for _, sub := range c.Commands {
			width = max(width, len(sub.Name))
		}
		if !m.description {
			title += "; --help-all lists all"
		}
		heading(title + ")")
		for _, sub := range c.Commands {
			if m.description || !sub.Rare {
				b.WriteString(entry(fmt.Sprintf("%-*s", width, sub.Name), sub.Usage, columns, width))
			}
		}
	}
	if m.description && c.Description != "" {
		heading("DESCRIPTION")
		for i, paragraph := range strings.Split(strings.TrimSpace(c.Description), "\n\n") {
			if i > 0 {
				b.WriteByte('\n')
			}
			if strings.HasPrefix(paragraph, "    ") {
				b.WriteString(paragraph + "\n")
				continue
			}
			text(3, paragraph)
		}
	}
	if c.Commands == nil || m.description {
		flags, title, width := c.shown(), "FLAGS", 0
		if !m.flags {
			title += fmt.Sprintf(" (--help-all lists all %d)", len(flags))
			for i, name := range c.Common {
				flags[i] = find(c.Flags, name)
			}
			flags = flags[:len(c.Common)]
		}
		heading(title)
		for _, f := range flags {
			if n := len(f.head()); n <= 24 {
				width = max(width, n)
			}
		}
		for _, f := range flags {
			b.WriteString(entry(f.head(), f.told(), columns, width))
		}
	}
	return b.String()
}

// head is a flag as it is given: "--jobs N".
func (f *Flag) head() string {
	head := "--" + f.Name
	for _, alias := range f.Aliases {
		if len(alias) == 1 {
			head += ", -" + alias
		} else {
			head += ", --" + alias
		}
	}
	if f.Kind != Bool {
		head += " " + f.value()
	}
	return head
}

// value is what the value of a flag is called.
func (f *Flag) value() string {
	if _, value, ok := strings.Cut(f.Usage, "`"); ok {
		value, _, _ = strings.Cut(value, "`")
		return value
	}
	return "VALUE"
}

// told is what a flag is for, with its default.
func (f *Flag) told() string {
	text := strings.ReplaceAll(f.Usage, "`", "")
	if d := f.DefaultText + f.Default; d != "" {
		text += " (default: " + d + ")"
	}
	return text
}

// entry is a word and what it means, in two columns.
func entry(word, means string, columns, width int) string {
	lines := Wrap(means, columns, 3+width+2)
	if len(word) > width {
		return "   " + word + "\n" + lines
	}
	return fmt.Sprintf("   %-*s  %s", width, word, lines[3+width+2:])
}

// Wrap returns a text in lines of at most so many columns, each of which begins with so many blanks; a word that is
// longer has a line of its own. The text's own lines do not matter.
func Wrap(text string, columns, indent int) string {
	var b strings.Builder
	room := 0 // in the line; 0 before the first
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if room > n {
			b.WriteString(" " + word)
			room -= 1 + n
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.Repeat(" ", indent) + word)
		room = columns - indent - n
	}
	return b.String() + "\n"
}
