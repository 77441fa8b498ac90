package remedy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Seen reports whether a text from a file's name or contents is UTF-8 in which every character
// is seen: none controls a terminal, ends a line or changes the direction of what follows.
func Seen(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
		}
	}
	return true
}

// Line returns a text as it can stand in a line for people: quoted as Go does where it is not
// [Seen].
func Line(s string) string {
	if Seen(s) {
		return s
	}
	return strconv.Quote(s)
}

// shown returns a text for people in which what is not [Seen] is written as \xHH.
func shown(s string) string {
	if Seen(s) {
		return s
	}
	return escaped(s, `\x%02x`, "")
}

// escaped returns a text with the bytes of what is not printable, and of some other characters, in a format.
func escaped(s, format string, others string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if strings.ContainsRune(others, r) || r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, format, c)
			}
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// List writes names as "a, b and c", at most six of them.
func List(names []string) string {
	const most = 6
	switch n := len(names); {
	case n == 0:
		return ""
	case n == 1:
		return names[0]
	case n > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n-most)
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// Count returns "1 file", "2 files".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Union returns some names with those of others that are not among them.
func Union(names, others []string) []string {
	for _, name := range others {
		if !slices.Contains(names, name) {
			names = append(slices.Clip(names), name)
		}
	}
	return names
}
