package command

import (
	"fmt"
	"slices"
	"strings"
)

// Man returns a man page in section 1 (man(7)): that of a program, or of the one of its commands
// that a word names, with those that this is made of.
func Man(app *Command, words []string) (string, error) {
	c, name := app, app.Name
	see := app.See
	for _, sub := range app.Commands {
		see = append(slices.Clone(see), app.Name+"-"+sub.Name+"(1)")
	}
	if len(words) > 0 {
		i := slices.IndexFunc(app.Commands, func(sub *Command) bool { return sub.Name == words[0] })
		if i < 0 || len(words) > 1 {
			return "", Misusef("--man %s: there is no such page", strings.Join(words, " "))
		}
		c, see = app.Commands[i], append([]string{app.Name + "(1)"}, app.See...)
		name += "-" + c.Name
	}
	p := &page{}
	release, _, _ := strings.Cut(app.Version, " ") // without the commit, which has no room between the page's name, twice
	p.add(".TH %s 1 \"\" %q", roff(name), app.Name+" "+release)
	p.add(".SH NAME\n%s \\- %s\n.SH SYNOPSIS", roff(name), roff(c.Usage))
	p.literal(c.synopsis(strings.ReplaceAll(name, "-", " ")))
	if c.Description != "" {
		p.add(".SH DESCRIPTION")
		p.text(c.Description)
	}
	if len(c.Commands) > 0 {
		p.add(".SH COMMANDS")
	}
	for _, sub := range c.Commands {
		if c == app {
			p.add(".TP\n\\fB%s\\fR\n%s", roff(sub.Name), roff(sub.Usage))
			continue
		}
		p.add(".SS %s", roff(sub.synopsis(c.Name+" "+sub.Name)))
		p.add("%s", roff(sub.Usage))
		p.flags(sub.Flags)
	}
	if c.Commands == nil || c == app {
		p.add(".SH OPTIONS")
		p.flags(c.Flags)
	}
	if c.Examples != "" {
		p.add(".SH EXAMPLES")
		p.literal(strings.TrimSpace(c.Examples))
	}
	p.add(".SH SEE ALSO\n%s", roff(strings.Join(see, ", ")))
	return p.String(), nil
}

// synopsis is how a command is called.
func (c *Command) synopsis(name string) string {
	if c.UsageText != "" {
		return c.UsageText
	}
	return strings.TrimSpace(name + " [flags] " + c.ArgsUsage)
}

type page struct{ strings.Builder }

func (p *page) add(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// literal adds lines as they are.
func (p *page) literal(text string) { p.add(".EX\n%s\n.EE", roff(text)) }

// text adds paragraphs, of which indented ones are literal.
func (p *page) text(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		switch {
		case strings.HasPrefix(paragraph, "    "):
			p.literal(paragraph)
		case i > 0:
			p.add(".PP")
			fallthrough
		default:
			p.add("%s", roff(paragraph))
		}
	}
}

// flags adds a paragraph for each flag, with what its value is called.
func (p *page) flags(all []*Flag) {
	for _, f := range all {
		if f.Hidden {
			continue
		}
		names := "\\fB" + roff("--"+f.Name) + "\\fR"
		for _, alias := range f.Aliases {
			names += ", \\fB" + roff("-"+alias) + "\\fR"
		}
		before, value, quoted := strings.Cut(f.Usage, "`")
		value, after, _ := strings.Cut(value, "`")
		if f.Kind != Bool {
			if !quoted {
				value = "VALUE"
			}
			names += " \\fI" + roff(value) + "\\fR"
		}
		usage := roff(f.Usage)
		if quoted {
			usage = roff(before) + "\\fI" + roff(value) + "\\fR" + roff(after)
		}
		if text := f.DefaultText + f.Default; text != "" {
			usage += roff(" (default: " + text + ")")
		}
		p.add(".TP\n%s\n%s", names, usage)
	}
}

// roff quotes what troff would take for requests and escapes.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
