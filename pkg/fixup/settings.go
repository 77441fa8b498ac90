package fixup

import (
	"debug/elf"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/runpath"
)

// Mode says where a run takes place, and what stays of the files' run paths.
type Mode int

const (
	// Build replaces the run path of each file whose needs ask for one. BuildOrigins keeps its entries that begin
	// with $ORIGIN. Nothing of the host counts, unless there are no [Settings.Interpreters].
	Build Mode = iota
	BuildOrigins
	// Repair is by hand, and keeps what works. A file without missing libraries stays as it is, and a library that
	// the loader already finds counts as found. Entries for other libraries go behind those that the file has.
	Repair
	// Replace is by hand, too, and replaces run paths like Build. What the loader finds counts after the candidates.
	Replace
)

// ByHand reports whether the run is by hand, and not in a build.
func (m Mode) ByHand() bool { return m == Repair || m == Replace }

// Settings says how libraries are chosen and what run paths are made of.
type Settings struct {
	Mode Mode
	// Tag is the tag of run paths that change. DT_NULL: DT_RUNPATH, or with Repair a DT_RPATH if something that is
	// found now would otherwise not be found.
	Tag elf.DynTag
	// Interpreters, one for each machine; files for other machines are skipped.
	// None: every program keeps its own, and files for Machines are worked on.
	Interpreters []Interpreter
	// Machines are those that count if there are no Interpreters; nil: all.
	Machines []elf.Machine
	// RuntimeDependencies begin the run paths of programs, and AppendRunpaths end all run paths.
	RuntimeDependencies []string
	AppendRunpaths      []string
	// KeepLibC: the C library's names are looked for among the candidates, too.
	KeepLibC bool
	// Relativize writes directories of the tree in terms of $ORIGIN.
	Relativize bool
	// Dlopen gives files the directories of the driver's and CUDA's libraries that they
	// name in read-only data (see Sources.Literals), and libraries the RuntimeDependencies too.
	Dlopen bool
	// Opened appends directories of the CUDA toolkit's libraries that a file names in read-only data (see
	// Sources.Literals) and that an input has. Then come those with such libraries that its $ORIGIN entries lead to,
	// even in wheels of inputs.
	Opened bool
	// Minimal drops entries that nothing uses.
	Minimal bool
	// EnforcePriority is the least priority of a .note.dlopen that counts as missing.
	EnforcePriority Priority
	// Driver: the driver's libraries come by the driver link, which the maps put in.
	Driver bool
	// Loaded, if not nil, reports whether a file, by its real path, finds a library already loaded when it is opened.
	// A library of another package is then no surprise.
	Loaded func(file, name string) bool
	// Opener, if not nil, returns the program that opens a library of the tree, by its real path; "" if none is
	// known. Its loader finds what the library needs, and nothing that it opens can have what its C library lacks.
	Opener func(library string) string
	// Map is applied to every run path at the end. It is called from several goroutines.
	Map func(o *Object, l runpath.List) runpath.List
	// note returns the description of the right resolution note for a file with a run path, "" for none. nil: a
	// file's note goes with its run path.
	note func(o *Object, l runpath.List) string
	// Patterns are names of libraries that may be missing (Python's fnmatch).
	Ignore []string
	// KeepInterpreter leaves interpreters as they are. Interpreters still tell the machine and the C library.
	KeepInterpreter bool
	// Temporary are directories that are gone after a build and that others can make again. Only run paths of files
	// in them may name one.
	Temporary []string
}

// Literals says which names of libraries count among a file's constants: see [Sources].
func (s *Settings) Literals(o *Object) func(name string) bool {
	switch {
	case s.Minimal && s.Mode == Repair: // a file's own entries may be for what it opens
		return func(string) bool { return true }
	case s.Dlopen:
		return driver.NeedsDriver
	case s.Opened, s.Mode != Repair && opensItsParts(o):
		return driver.Toolkit
	}
	return nil
}

// Tools are the editing tools' changes in the same edit, and the resolution note.
type Tools struct {
	Normal *normal.Maps
	Maps   runpath.Map
	// WhenNeeds puts the driver link only where a file needs it.
	WhenNeeds bool
	// WriteNotes gives every file a right resolution note, and not only those that have one.
	WriteNotes bool
}

// Apply makes the tools' maps apply at the end, and resolution notes be written that are right for the result.
func (s *Settings) Apply(t Tools) {
	s.note = func(o *Object, l runpath.List) string {
		if o.Description == "" && !t.WriteNotes {
			return ""
		}
		kept, _ := resolution.Parse([]byte(o.Description)) // of a malformed one, what the loader reads
		return string(t.Normal.Resolution(normal.File{Path: o.Real, ABI: o.abi}, o.Needed, l, kept).Bytes())
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
		after, _ := t.Normal.Apply(normal.File{Path: o.Real, ABI: o.abi, Needed: o.Needed}, l, maps)
		return after
	}
}
