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
	// Command does it when it is run as it is. The program is one of this project's.
	Command []string `json:"command,omitempty"`
	Fix     string   `json:"fix,omitempty"` // Command, quoted for a shell
	// Advice is what to do where no command does it, else what else there is to say: a condition, another way.
	Advice string `json:"advice,omitempty"`
	// Change is what Command does to the ELF file at File, where that is all that it does; else nil.
	File   string  `json:"-"`
	Change *Change `json:"-"`

	between string // of Fix and Advice, where they are printed as one
}

// Run returns the remedy of running a command. What edits a file is for package change.
func Run(argv ...string) Remedy { return Remedy{Fix: Quote(argv...), Command: argv} }

// Do returns a remedy that is not one command: words, as [Say] has them.
func Do(format string, values ...any) Remedy { return Remedy{Advice: string(Say(format, values...))} }

// Whole is all that there is to say, in one sentence; it begins with the command, where there is one.
func (r Remedy) Whole() string {
	if r.Fix != "" && r.Advice != "" && r.between == "" {
		return r.Fix + "; " + r.Advice
	}
	return r.Fix + r.between + r.Advice
}

// Same reports whether two remedies say the same.
func (r Remedy) Same(s Remedy) bool { return r.Whole() == s.Whole() }

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
	more := string(Say(format, values...))
	if r.Advice != "" || r.Command == nil {
		r.Advice += more
		return r
	}
	r.Advice = strings.TrimLeft(more, " ,;:")
	r.between = strings.TrimSuffix(more, r.Advice)
	return r
}

// Instead returns the remedy with another command, and the same advice.
func (r Remedy) Instead(argv ...string) Remedy {
	r.Command, r.Fix, r.Change = argv, Quote(argv...), nil
	return r
}
