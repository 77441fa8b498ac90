package command

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultColumns is how wide a terminal is that does not say it.
const defaultColumns = 80

// file returns the file that a writer writes to in the end, nil for none.
func file(w io.Writer) *os.File {
	if c, ok := w.(*checked); ok {
		w = c.Writer
	}
	f, _ := w.(*os.File)
	return f
}

// Terminal reports whether a writer is a terminal.
func Terminal(w io.Writer) bool {
	f := file(w)
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Columns returns how wide a terminal is; 80 for what is none, or does not say it.
func Columns(w io.Writer) int {
	if f := file(w); f != nil {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
	}
	return defaultColumns
}

// Ink colours text for a terminal; the zero value leaves it as it is.
type Ink struct{ on bool }

// InkFor returns the ink for what a writer shows: none where it is no terminal, where that is "dumb", and where
// NO_COLOR is set (https://no-color.org).
func InkFor(w io.Writer) Ink {
	return Ink{Terminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Hue is how a terminal shows text: a parameter of "Select Graphic Rendition" (ECMA-48, 8.3.117).
type Hue string

// The hues that are used.
const (
	Plain  Hue = ""
	Bold   Hue = "1"
	Dim    Hue = "2"
	Red    Hue = "31"
	Green  Hue = "32"
	Yellow Hue = "33"
)

// Paint returns text in a hue.
func (i Ink) Paint(h Hue, text string) string {
	if !i.on || h == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(h) + "m" + text + "\x1b[0m"
}

// Signs returns a text of a command with its arrows and lines in ASCII where the locale is C's, which has no other letters.
func Signs(text string) string {
	switch cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")) {
	case "C", "POSIX":
		return strings.NewReplacer("→", "->", "…", "...", "├──", "|--", "└──", "`--", "│", "|").Replace(text)
	}
	return text
}

// Few returns the first n names of several, and how many more there are.
func Few(names []string, n int) string {
	if len(names) > n {
		return strings.Join(names[:n], ", ") + fmt.Sprintf(" and %d more", len(names)-n)
	}
	return strings.Join(names, ", ")
}

// Below returns what shows, in a text, the paths below some directories from there.
func Below(dirs []string) func(text string) string {
	return func(text string) string {
		for _, dir := range dirs {
			text = below(dir, text)
		}
		return text
	}
}

func below(dir, text string) string {
	if dir == "/" {
		return text
	}
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(text, dir+"/")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if before != "" && !strings.ContainsAny(before[len(before)-1:], " \"'`([=:,\x00") { // the end of another path
			b.WriteString(dir + "/")
		}
		text = after
	}
}
