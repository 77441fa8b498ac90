package remedy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote returns words, the first of which is a command's name, as every POSIX shell reads them back, dash as well as
// bash: on one line, in which nothing is for a terminal to obey. It is the one place where a value becomes a part of a
// command.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if strings.HasSuffix(w, "\n") { // which $(…) would drop; inside another word it does not end
			plain := make([]string, len(words))
			for i, w := range words {
				plain[i] = literal(w)
			}
			return "eval " + Printed(strings.Join(plain, " "))
		}
		quoted[i] = Word(w)
	}
	return strings.Join(quoted, " ")
}

// Text is what people read, with values in it that are quoted.
type Text string

// Command is [Quote] for [Say].
func Command(words ...string) Text { return Text(Quote(words...)) }

// Say returns words in which each %s is the next of some values: a string as a shell reads it back, who is given the
// whole line by mistake too; several, as "a, b and c"; and [Text] as it is. A newline at the end of a value may be
// lost.
func Say(format string, values ...any) Text {
	if len(values) == 0 {
		return Text(shown(format))
	}
	parts := strings.Split(format, "%s")
	said := parts[0]
	for i, v := range values {
		switch v := v.(type) {
		case Text:
			said += string(v)
		case []string:
			quoted := make([]string, len(v))
			for i, w := range v {
				quoted[i] = Word(w)
			}
			said += List(quoted)
		case string:
			said += Word(v)
		}
		said += parts[i+1]
	}
	return Text(shown(said))
}

// Word is one word, which does not end in a newline.
func Word(w string) string {
	switch {
	case !Seen(w):
		return Printed(w)
	case w == "" || w[0] == '=' || strings.ContainsFunc(w, special): // zsh looks a command up for =NAME
		return literal(w)
	}
	return w
}

// literal is a word between single quotes, whatever it holds.
func literal(w string) string { return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'" }

// Printed is a word that printf(1) writes: what is not seen, what its format or a shell's history reads otherwise, and
// each quote, is three octal digits, which every printf knows; so is a hyphen in front, which some take for an option.
func Printed(w string) string { return `"$(printf '` + octal(w) + `')"` }

// octal returns a text as printf's format has it.
func octal(s string) string {
	const others = "\\'\"%!$`"
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		return `\055` + escaped(rest, `\%03o`, others)
	}
	return escaped(s, `\%03o`, others)
}

func special(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:=@,%", r))
}

// Operand returns a path as an argument that no command takes for an option.
func Operand(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}

// NixPattern returns a file's name as a string of Nix that is a pattern for it: what is not seen is any character.
func NixPattern(name string) Text {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r == utf8.RuneError || !unicode.IsPrint(r):
			b.WriteByte('?')
		case strings.ContainsRune(`"\$`, r):
			b.WriteString(`\` + string(r))
		default:
			b.WriteRune(r)
		}
	}
	return Text(`"` + b.String() + `"`)
}
