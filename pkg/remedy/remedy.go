// Package remedy is what to do about something that is wrong: in words and, where one
// command does it, that command, so that tests and programs can follow it.
package remedy

import (
	"path"
	"strings"
)

// Remedy is embedded in what reports a problem; the zero value is none.
type Remedy struct {
	// Fix says what to do. It begins with Command, quoted for a shell, where there is one.
	Fix string `json:"fix,omitempty"`
	// Command does it when it is run as it is. The program is one of this project's.
	Command []string `json:"command,omitempty"`
}

// Run returns the remedy of running a command.
func Run(argv ...string) Remedy { return Remedy{Fix: Quote(argv...), Command: argv} }

// Do returns a remedy that is not one command: words.
func Do(what string) Remedy { return Remedy{Fix: what} }

// Words returns what Fix says beside the command.
func (r Remedy) Words() string { return strings.TrimPrefix(r.Fix, Quote(r.Command...)) }

// Common returns the directory that paths are below, all of them.
func Common(paths []string) string {
	dir := path.Dir(paths[0])
	for _, p := range paths[1:] {
		for dir != "/" && dir != "." && !strings.HasPrefix(p, dir+"/") {
			dir = path.Dir(dir)
		}
	}
	return dir
}

// And returns the remedy with more words: a condition, or another way.
func (r Remedy) And(words string) Remedy {
	r.Fix += words
	return r
}

// Quote returns words as a POSIX shell reads them back, separated by blanks. Nothing in them
// is for a terminal to obey.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if !Seen(w) {
			quoted[i] = "$'" + Escape(w) + "'"
		} else if w == "" || strings.ContainsFunc(w, special) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func special(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:=@,%", r))
}
