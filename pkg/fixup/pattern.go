package fixup

import (
	"path"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// pattern is a shell pattern as Python's fnmatch reads it: "*", "?", "[seq]" and
// "[!seq]" match any character, also "/" and a leading period; a backslash is itself.
type pattern struct {
	text string
	re   *regexp.Regexp
}

// patternPart is one character, or a set, whose first member may be a "]".
var patternPart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)\[(?:!.|[^!])[^]]*]|.`) })

func newPattern(written string) pattern {
	re, err := regexp.Compile(`(?s)\A` + patternPart().ReplaceAllStringFunc(characters(written), func(part string) string {
		switch {
		case part == "*":
			return ".*"
		case part == "?":
			return "."
		case part[0] != '[' || part == "[":
			return regexp.QuoteMeta(part)
		case part[1] == '!':
			return "[^" + regexp.QuoteMeta(part[2:len(part)-1]) + "]"
		}
		return "[" + regexp.QuoteMeta(part[1:len(part)-1]) + "]" // a "-" is none of its signs, and means the same in both
	}) + `\z`)
	if err != nil { // a range that goes backwards matches nothing, in Python an error
		re = regexp.MustCompile(`\z.`)
	}
	return pattern{written, re}
}

func (p pattern) match(name string) bool { return p.re.MatchString(characters(name)) }

// of reports whether a library, which may be a path, matches the pattern.
func (p pattern) of(library string) bool { return p.match(path.Base(library)) }

// characters returns a text in which a byte that is not UTF-8 is a character of its own, like in Python's file names.
func characters(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			r = 0xf700 + rune(text[0]) // of the private use area
		}
		b.WriteRune(r)
		text = text[n:]
	}
	return b.String()
}
