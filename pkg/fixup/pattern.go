package fixup

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// pattern is a shell pattern as Python's fnmatch reads it: "*", "?", "[seq]" and
// "[!seq]" match any character, also "/" and a leading period; a backslash is itself.
type pattern struct {
	text string
	re   *regexp.Regexp
}

func newPattern(written string) pattern {
	text := characters(written)
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		case '[':
			j := i + 1
			if j < len(text) && text[j] == '!' {
				j++
			}
			if j < len(text) && text[j] == ']' {
				j++
			}
			k := strings.IndexByte(text[min(j, len(text)):], ']')
			if k < 0 {
				b.WriteString(`\[`)
				continue
			}
			set := text[i+1 : j+k]
			i = j + k
			b.WriteByte('[')
			if strings.HasPrefix(set, "!") {
				b.WriteByte('^')
				set = set[1:]
			}
			for _, c := range set {
				if c == '-' {
					b.WriteByte('-')
				} else {
					b.WriteString(regexp.QuoteMeta(string(c)))
				}
				if c == '^' || c == '&' || c == '~' {
					continue
				}
			}
			b.WriteByte(']')
		default:
			b.WriteString(regexp.QuoteMeta(text[i : i+1])) // of a character of several bytes, each: none is a sign
		}
	}
	b.WriteString(`\z`)
	re, err := regexp.Compile(b.String())
	if err != nil { // a range that goes backwards matches nothing, in Python an error
		re = regexp.MustCompile(`\z.`)
	}
	return pattern{written, re}
}

func (p pattern) match(name string) bool { return p.re.MatchString(characters(name)) }

// characters returns a text in which a byte that is no part of UTF-8 is a character of its own, as in Python's names of
// files.
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
