package cli

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sirupsen/logrus"
)

func newLog(w io.Writer, verbose, quiet bool) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(w)
	log.SetFormatter(lineFormat{})
	switch {
	case verbose:
		log.SetLevel(logrus.DebugLevel)
	case quiet:
		log.SetLevel(logrus.WarnLevel)
	default:
		log.SetLevel(logrus.InfoLevel)
	}
	return log
}

// lineFormat writes "PATH: message", as compilers do, with "warning: " before a
// warning's message. Each entry is one line, whatever the file's name and contents are.
type lineFormat struct{}

func (lineFormat) Format(e *logrus.Entry) ([]byte, error) {
	var b []byte
	if path, ok := e.Data["path"].(string); ok {
		b = append(b, Printable(path)...)
		b = append(b, ": "...)
	}
	if e.Level == logrus.WarnLevel {
		b = append(b, "warning: "...)
	}
	b = append(b, Printable(strings.ReplaceAll(e.Message, "\n", "; "))...)
	return append(b, '\n'), nil
}

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
