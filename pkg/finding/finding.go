// Package finding holds what is concluded about files, their processes and hosts. Each finding is one [Situation] of
// one table, and says what it is about, how bad that is, and what helps. All commands show findings, or select from
// them.
package finding

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/remedy"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the program does not work, or not the way it was meant to
	Warning Severity = "warning" // it works here and now, by luck
	Note    Severity = "note"    // could be tidier
)

// Rank orders severities, the worst last.
func (s Severity) Rank() int { return slices.Index([]Severity{Note, Warning, Error}, s) }

// Finding is one thing that can be said of a file, a start or a host, and what to do about it.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"` // the cause, in a sentence
	remedy.Remedy
	Entry    *string `json:"entry,omitempty"`    // as written in the run path
	Position int     `json:"position,omitempty"` // of the entry, from 1
	Library  string  `json:"library,omitempty"`
	Line     int     `json:"line,omitempty"`  // of a script, from 1
	Bytes    uint64  `json:"bytes,omitempty"` // that it is about
	// Libraries are all the names, if it is about several.
	Libraries  []string    `json:"libraries,omitempty"`
	Candidates []Candidate `json:"candidates,omitempty"`
	Accepted   bool        `json:"accepted,omitempty"` // a baseline has it
	// Of names the starts that it is about, of several. Part: one of them is opened only by those who ask for it, and
	// nobody else meets the finding.
	Of   []string `json:"of,omitempty"`
	Part bool     `json:"part,omitempty"`

	// File is the library that it is about, and By the file that asks for it, as the loader names them; "" for none
	// and for one that was not found.
	File string `json:"-"`
	By   string `json:"-"`
	// Driver: it is about a copy of one of the driver's libraries. Optional: the library is opened by name, by
	// something that may do without.
	Driver   bool     `json:"-"`
	Optional bool     `json:"-"`
	Answer   int      `json:"-"` // the error that CUDA answers; 0 for none, or not known
	GPUs     []string `json:"-"` // that cannot run the code
	// Others are the remedies to try if Remedy turns out not to help.
	Others []remedy.Remedy `json:"-"`
}

// Candidate is one of several files of the same name.
type Candidate struct {
	Path     string `json:"path"`
	Position int    `json:"position"` // of its directory in the run path, from 1
	Wins     bool   `json:"wins"`     // the loader takes it
}

// Strictly returns a finding with its severity, which is the situation's if it has none. With strict, a warning
// becomes an error.
func (f Finding) Strictly(strict bool) Finding {
	if f.Severity = cmp.Or(f.Severity, of(f.ID).Severity); strict && f.Severity == Warning {
		f.Severity = Error
	}
	return f
}

// Missing reports whether an id is that of a library that is not found, for the file itself or what it loads.
func Missing(id string) bool { return id == Unresolved || id == UnresolvedIndirect }

// OfTheLoad reports whether a finding is about what is loaded.
func (f *Finding) OfTheLoad() bool { return slices.Contains(ofTheLoad, f.ID) }

// Stops reports whether the finding keeps a program from starting, or from loading what it was meant to load.
func (f *Finding) Stops() bool { return f.Severity == Error && f.OfTheLoad() }

// About reports whether a finding is about a library, given the name that was asked for and its file, or about what
// the library needs.
func (f *Finding) About(name, file string) bool {
	return file != "" && (f.File == file || f.By == file) ||
		f.File == "" && path.Base(f.Library) == path.Base(name)
}

// Same reports whether two findings say the same.
func (f *Finding) Same(g *Finding) bool { return f.ID == g.ID && f.Message == g.Message }

// Merge adds a start's finding to those of several starts. If one says the same, the start is added to that.
func Merge(all []Finding, f Finding, start string) []Finding {
	i := slices.IndexFunc(all, func(g Finding) bool { return g.Same(&f) })
	if i < 0 {
		i = len(all)
		all = append(all, f)
		all[i].Of = nil
	}
	g := &all[i]
	if g.Of = append(g.Of, start); g.Part && !f.Part {
		g.Severity, g.Part = f.Severity, false
	}
	return all
}

// Named returns what is said of starts, with the path of the first in place of "the file"; of a text that does not speak of
// it, the text.
func Named(text string, starts []string) string {
	if len(starts) == 0 {
		return text
	}
	return strings.Replace(text, "the file", starts[0], 1)
}

// FixInPackage returns what the author of a Nix package writes to settle a finding, because nobody runs the command
// of the [Finding] inside a build or in a store. "" if the package can do nothing better than that command. The
// settings are those of hooks/, described in nix/hooks.section.md. hooks are the tools that the build has already:
// "TOOL", or "TOOL: WHY" where it did not act.
func (f *Finding) FixInPackage(hooks ...string) remedy.Text {
	switch f.ID {
	case EmptyEntry:
		// nixpkgs' own autoAddDriverRunpath writes them
		return cmp.Or(isThere(hooks, ""), "add cudaRunpathHook to nativeBuildInputs, which drops empty entries")
	case StubEntry:
		return cmp.Or(isThere(hooks, "stubReplace"),
			"add stubReplace to nativeBuildInputs, and do not set dontStubReplace")
	case DriverBeforeCompat:
		return cmp.Or(isThere(hooks, "addCudaCompatRunpath"),
			"add addCudaCompatRunpath to nativeBuildInputs, and do not set dontAddCudaCompatRunpath")
	case Ambiguous:
		const ignore = "set noRunpathAmbiguityIgnore = [ %s ];"
		if driver.Provides(f.Library) {
			return remedy.Say(
				"%s comes with the host's driver: leave the package that holds another one out of buildInputs; or, where that is "+
					"a compat package, "+
					"set cudaCompat to its directory; or "+ignore, f.Library, remedy.NixPattern(f.Library))
		}
		return remedy.Say(
			"leave all but one of the packages that hold %s out of buildInputs; or, where the first one is meant, "+ignore,
			f.Library, remedy.NixPattern(f.Library))
	}
	return ""
}

// isThere says why a tool, "" for any, that is among a build's hooks left what it is for; "" where it is not there.
func isThere(hooks []string, tool string) remedy.Text {
	why := "it ran, and flags of the package keep this, it could not edit the file, or something else edited it later"
	for _, hook := range hooks {
		name, idle, _ := strings.Cut(hook, ": ")
		if tool == "" || name == tool {
			return remedy.Say("%s is among this build's hooks: %s", name, remedy.Text(cmp.Or(idle, why)))
		}
	}
	return ""
}
