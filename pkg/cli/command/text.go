package command

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns text from a file's name or contents as it can stand in a line
// for a terminal: quoted as Go does where it is not UTF-8 or holds characters that
// are not seen (control, line separator, change of direction).
func Printable(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}
