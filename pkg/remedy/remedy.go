// Package remedy is what to do about something that is wrong: in words and, where one
// command does it, that command, so that tests and programs can follow it.
//
// It is where a command becomes text. A value, such as a file's name, reaches that through [Quote], [Say] and
// package nixtext alone, and a command that edits a file is one of package change's, which knows what nobody edits.
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

// Run returns the remedy of running a command. What edits a file is for package change.
func Run(argv ...string) Remedy { return Remedy{Fix: Quote(argv...), Command: argv} }

// Do returns a remedy that is not one command: words, as [Say] has them.
func Do(format string, values ...any) Remedy { return Remedy{Fix: string(Say(format, values...))} }

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

// And returns the remedy with more words, as [Say] has them: a condition, or another way.
func (r Remedy) And(format string, values ...any) Remedy {
	r.Fix += string(Say(format, values...))
	return r
}
