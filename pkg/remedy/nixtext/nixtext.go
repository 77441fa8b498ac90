// Package nixtext has the words of shell commands that stand in a string of Nix, where a package has its commands.
package nixtext

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/remedy"
)

// Word returns a word as a shell reads it back from an indented string of Nix, where a package has its commands: there
// are neither two quotes nor a dollar before a brace in it but for one expression, which Nix is to read. The word must
// not end in a newline.
func Word(w, expression string) string {
	if remedy.Word(w) == w && strings.Trim(w, "\n") == w {
		return w
	}
	parts := []string{w}
	if expression != "" {
		parts = strings.Split(w, expression)
	}
	unsafe := func(special string) bool {
		return slices.ContainsFunc(parts,
			func(part string) bool { return !remedy.Seen(part) || strings.ContainsAny(part, special) })
	}
	switch {
	case !strings.Contains(w, "'") && w != "" && !slices.ContainsFunc(parts,
		func(p string) bool { return !remedy.Seen(p) || strings.Contains(p, "${") }):
		return "'" + w + "'"
	case !unsafe("\\$`!") && !strings.Contains(w, "''"):
		return `"` + strings.ReplaceAll(w, `"`, `\"`) + `"`
	}
	for i, part := range parts {
		if parts[i] = ""; part != "" {
			parts[i] = remedy.Printed(part)
		}
	}
	return strings.Join(parts, `"`+expression+`"`)
}

// Substitute returns the command of nixpkgs' setup that changes a text: arguments are those that [Word] has made.
func Substitute(path, arguments string) remedy.Text {
	return remedy.Text("substituteInPlace " + Word(remedy.Operand(path), "") + " " + arguments)
}
