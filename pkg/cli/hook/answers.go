package hook

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// answers are what the program says to the shim: words of doc.go's list, each with a NUL behind it.
type answers struct {
	out io.Writer
	// pipe is where out leads to; nil: to nobody who is waited for.
	pipe *os.File
	err  error
}

func (a *answers) say(word string) {
	if _, err := io.WriteString(a.out, word+"\x00"); err != nil && a.err == nil {
		a.err = err
	}
}

// note and fail have the shim print a line, by nixpkgs' functions where these are.
func (a *answers) note(message string) { a.print("log " + message) }
func (a *answers) fail(message string) { a.print("error " + message) }

// print returns when the line is printed: what a tool prints next comes after it. The shell reads a pipe byte by byte,
// so when it is empty, the shell has obeyed all but the last word, which says nothing.
func (a *answers) print(word string) {
	// half a character would eat the NUL behind it
	a.say(strings.ReplaceAll(strings.ToValidUTF8(word, "\ufffd"), "\x00", "\ufffd"))
	a.say("")
	if a.pipe == nil {
		return
	}
	for range 10_000 { // at most a second: a shell that is stopped holds up no tool
		if n, err := unix.IoctlGetInt(int(a.pipe.Fd()), unix.TIOCINQ); err != nil || n == 0 {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}
