package remedy

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/runpath"
)

// Change is what is done to one ELF file: by the rules of the normal form, to its resolution note, or to parts of it. It
// is data: a view of the file and the editors can each carry it out.
type Change struct {
	Rules *Rules // of the normal form; nil: the lists below are entries of the run path, as they are
	Note  string // of the resolution note: "write", "remove", "" for neither
	// Entries of the run path, and needed libraries; Replace… are "OLD=NEW", of entries several NEW between colons.
	RemoveEntries, ReplaceEntries, AddEntries []string
	ReplaceNeeded, AddNeeded                  []string
	Interpreter                               string // "": as it is
	ClearExecStack                            bool
}

// Rules are the normal form with what tools ask for beside it, and which directories are whose: "" and none for the
// usual ones.
type Rules struct {
	Maps               runpath.Map
	Dedupe             bool
	DriverLink, Compat string
	Stubs              []string // patterns of further directories of stubs
	Store              string   // of Nix
}

// Command is the change as a command line, but for the file.
func (c *Change) Command() []string {
	if c.Note == "remove" {
		return []string{"runpath", "cache", "remove"}
	}
	if r := c.Rules; r != nil {
		argv := []string{"runpath", "normalize"}
		switch {
		case c.Note != "":
			argv = []string{"runpath", "cache", c.Note}
		case r.Maps == runpath.ReplaceStubs:
			argv = []string{"stubReplace"}
		case r.Maps == runpath.AddDriverLink:
			argv = []string{"autoAddDriverRunpath"}
		}
		if r.Dedupe {
			argv = append(argv, "--dedupe")
		}
		for _, p := range r.Stubs {
			argv = append(argv, "--stub", p)
		}
		argv = with(argv, "--store", r.Store)
		argv = with(argv, "--driver-link", r.DriverLink)
		argv = with(argv, "--compat", r.Compat)
		return argv
	}
	argv := []string{"runpath", "edit"}
	argv = with(argv, "--remove-entry", c.RemoveEntries...)
	argv = with(argv, "--replace-entry", c.ReplaceEntries...)
	argv = with(argv, "--replace-needed", c.ReplaceNeeded...)
	argv = with(argv, "--add-needed", c.AddNeeded...)
	if len(argv) == 2 && len(c.AddEntries) == 1 && c.Interpreter == "" && !c.ClearExecStack {
		return []string{"runpath", "add", c.AddEntries[0]}
	}
	argv = with(argv, "--add-entry", c.AddEntries...)
	argv = with(argv, "--interpreter", c.Interpreter)
	if c.ClearExecStack {
		argv = append(argv, "--clear-execstack")
	}
	return argv
}

// with appends a flag with each value that is not empty.
func with(argv []string, flag string, values ...string) []string {
	for _, v := range values {
		if v != "" {
			argv = append(argv, flag, v)
		}
	}
	return argv
}

// OfAll returns what helps with all that several remedies, each of a file below a directory, are for: the one that all
// of them are or, where each adds the driver link alike, that for the whole directory; the zero value where none does,
// and where dir is "", which is none.
func OfAll(dir string, all []Remedy) (whole Remedy) {
	links := func(r Remedy) bool {
		return r.Change != nil && r.Change.Rules != nil && r.Change.Rules.Maps == runpath.AddDriverLink
	}
	for i, r := range all {
		switch {
		case i == 0:
			whole = r
		case r.Same(all[0]):
		case dir == "", !links(r), !links(all[0]), !slices.Equal(r.Change.Command(), all[0].Change.Command()):
			return Remedy{}
		default:
			whole = all[0].Instead(append(r.Change.Command(), Operand(dir))...)
		}
	}
	return whole
}

// Entries returns what the change makes of a run path, where it has no rules.
func (c *Change) Entries(l runpath.List) runpath.List {
	l = l.Without(c.RemoveEntries...)
	for _, pair := range c.ReplaceEntries {
		l = replaceEntry(l, pair)
	}
	for _, entry := range c.AddEntries {
		if len(l.Without(entry)) == len(l) {
			l = append(slices.Clip(l), entry)
		}
	}
	return l
}

// replaceEntry puts NEW in the place of an entry OLD of a list; pair is OLD=NEW, where OLD, which may have an equals
// sign too, is the shortest that is an entry.
func replaceEntry(l runpath.List, pair string) runpath.List {
	for i, c := range pair {
		if old := pair[:i]; c == '=' && len(l.Without(old)) < len(l) {
			return l.Replace(old, runpath.Parse(pair[i+1:])...)
		}
	}
	return l
}

// Libraries returns what the change makes of needed libraries.
func (c *Change) Libraries(names []string) []string {
	all := slices.Clone(names)
	for from, to := range c.Renamed() {
		if i := slices.Index(all, from); i >= 0 {
			all[i] = to
		}
	}
	for _, name := range c.AddNeeded {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Renamed returns what the change makes of needed libraries, old names to new ones.
func (c *Change) Renamed() map[string]string {
	if len(c.ReplaceNeeded) == 0 {
		return nil
	}
	all := map[string]string{}
	for _, pair := range c.ReplaceNeeded {
		from, to, _ := strings.Cut(pair, "=")
		all[from] = to
	}
	return all
}
