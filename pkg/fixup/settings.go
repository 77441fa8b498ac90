package fixup

import (
	"debug/elf"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/runpath"
)

// Mode says where a run takes place, and what of the run paths that files have stays.
type Mode int

const (
	// Build replaces the run path of each file whose needs ask for one; BuildOrigins keeps the entries of it that begin
	// with $ORIGIN. Nothing of the host counts, unless there are no [Settings.Interpreters].
	Build Mode = iota
	BuildOrigins
	// Repair is by hand, and keeps what works: a file in which nothing is missing stays as it is, a library that the
	// loader already finds for a file is found, and what is found else goes behind the entries that it has.
	Repair
	// Replace is by hand, too, and replaces run paths as Build does: what the loader finds counts behind the candidates.
	Replace
)

// ByHand reports whether the run is no build.
func (m Mode) ByHand() bool { return m == Repair || m == Replace }

// Settings says how libraries are chosen and what run paths are made of.
type Settings struct {
	Mode Mode
	// Tag is what run paths that change are to have. DT_NULL: DT_RUNPATH, and with Repair a DT_RPATH where
	// something would else not be found that is.
	Tag elf.DynTag
	// Interpreters, one for each machine; files for other machines are skipped.
	// None: every program keeps its own, and files for Machines are worked on.
	Interpreters []Interpreter
	// Machines are those that count where there are no Interpreters; nil: all.
	Machines []elf.Machine
	// RuntimeDependencies begin the run paths of programs, AppendRunpaths end all.
	RuntimeDependencies []string
	AppendRunpaths      []string
	// KeepLibC looks for the C library's names among the candidates too.
	KeepLibC bool
	// Relativize writes directories of the tree in terms of $ORIGIN.
	Relativize bool
	// Dlopen gives files the directories of the driver's and CUDA's libraries that they
	// name in read-only data (see Sources.Literals), and libraries the RuntimeDependencies too.
	Dlopen bool
	// Opened puts the directories of the CUDA toolkit's libraries that a file names in
	// read-only data (see Sources.Literals), and that an input has, behind the others; then
	// those with such libraries to which its $ORIGIN entries lead, also in wheels of inputs.
	Opened bool
	// Minimal drops entries that nothing uses.
	Minimal bool
	// EnforcePriority is the least priority of a .note.dlopen that counts as missing.
	EnforcePriority Priority
	// Driver: the driver's libraries come by the driver link, which the maps put in.
	Driver bool
	// Loaded, where not nil, reports whether a file, by its real path, finds a library loaded when it is opened: one of
	// another package is then no surprise.
	Loaded func(file, name string) bool
	// Opener, where not nil, returns the program that opens a library of the tree, by its real path, where one is known:
	// "" else. What its C library lacks nothing that it opens can have.
	Opener func(library string) string
	// Map is applied to every run path at the end. It is called from several goroutines.
	Map func(o *Object, l runpath.List) runpath.List
	// Note returns the description of the resolution note that is right for a file with a run
	// path, "" for none. nil: one that a file has goes with its run path.
	Note func(o *Object, l runpath.List) string
	// Patterns are names of libraries that may be missing (Python's fnmatch).
	Ignore []string
	// KeepInterpreter leaves interpreters as they are; Interpreters still tell machine and C library.
	KeepInterpreter bool
	// Temporary are directories that are gone after a build, and that others can make
	// again: no run path may name one, but those of files in them.
	Temporary []string
}

// Literals says which names of libraries count among a file's constants: see [Sources].
func (s *Settings) Literals(o *Object) func(name string) bool {
	switch {
	case s.Minimal && s.Mode == Repair: // a file's own entries may be there for what it opens
		return func(string) bool { return true }
	case s.Dlopen:
		return driver.NeedsDriver
	case s.Opened, s.Mode != Repair && opensItsParts(o):
		return driver.Toolkit
	}
	return nil
}

// Tools are what is done in the same edit as the editing tools do it, and the resolution note.
type Tools struct {
	Normal *normal.Maps
	Maps   runpath.Map
	// WhenNeeds puts the driver link only where a file needs it.
	WhenNeeds bool
	// WriteNotes gives files without a resolution note one, too; those that have one get the right one.
	WriteNotes bool
}

// Apply has the tools' maps applied at the end, and resolution notes written that are right for what comes of that.
func (s *Settings) Apply(t Tools) {
	s.Note = func(o *Object, l runpath.List) string {
		if o.Description == "" && !t.WriteNotes {
			return ""
		}
		kept, _ := resolution.Parse([]byte(o.Description)) // of one that is malformed, what the loader reads
		return string(t.Normal.Resolution(normal.File{Path: o.Real, ABI: o.ABI}, o.Needed, l, kept).Bytes())
	}
	if t.Maps == 0 {
		return
	}
	s.Driver = s.Driver || t.Maps&(runpath.AddDriverLink|runpath.ReplaceStubs) != 0
	s.Map = func(o *Object, l runpath.List) runpath.List {
		maps := t.Maps
		if t.WhenNeeds && !o.needsDriver {
			maps &^= runpath.AddDriverLink
		}
		after, _ := t.Normal.Apply(normal.File{Path: o.Real, ABI: o.ABI, Needed: o.Needed}, l, maps)
		return after
	}
}
