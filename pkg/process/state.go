package process

import (
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
)

// State is what is in a process.
type State struct {
	*loader.Load
	Start Start
}

// Begin starts a program up to its first instruction, or loads a library. The error says why the file cannot be
// examined, and does not name it; what is wrong with its libraries is in the state.
func (t Start) Begin(l *loader.Loader) (*State, error) {
	load, err := l.Start(t.File, t.Interpreter, t.Environment)
	if err != nil {
		return nil, err
	}
	return &State{load, t}, nil
}

// Likely returns a filter for the names among an object's constants that are worth following. These are the driver's
// and the toolkit's, those that the object is meant to open, and all whole strings of the file itself. What a library
// such as libc.so.6 may open, and what the driver opens of its own, is followed only if all is set.
func (s *State) Likely(all bool) func(*loader.Object, files.Literal) bool {
	return func(o *loader.Object, l files.Literal) bool {
		switch {
		case !all && driver.Provides(path.Base(o.Name)):
			return false
		case all || o == s.Main:
			return l.Exact || l.Driver
		}
		return l.Driver || s.meant(o, l)
	}
}

// meant reports whether a library opens a name among its constants, as far as files show. It does if it calls dlopen
// itself, and a run path made for it leads to a file of that name.
func (s *State) meant(o *loader.Object, l files.Literal) bool {
	if !l.Exact || l.Path != "" || !o.Found() || o.File == nil {
		return false
	}
	if f, _, _ := s.Own(o, l.Name); f == nil {
		if !s.SearchesRunPath(o) {
			return false
		}
		found := s.Alone(l.Name, o, loader.DlopenString)
		if found == nil || !found.Rule.InRunPath() {
			return false
		}
	}
	return o.File.Calls("dlopen")
}

// OpenAll opens what the objects of the process may open. Of the alternatives in a note it takes the first that can
// be loaded, and of the names in read-only data those that want accepts. A name from a string that leads to no file
// leaves no trace, unless keep accepts it.
func (s *State) OpenAll(want func(o *loader.Object, l files.Literal) bool, keep func(name string) bool) {
	if s.Role == loader.Static {
		return
	}
	s.script()
	for i := 0; i < len(s.Objects) || s.again(); i++ {
		if i == len(s.Objects) { // what was there already
			break
		}
		o := s.Objects[i]
		if !o.Found() || o.File == nil || o.Err != "" || o.Rule == loader.ByLoader {
			continue
		}
		asked := map[string]bool{}
		for _, u := range o.Uses {
			asked[u.Name] = u.To.Found() && u.To.Err == "" || u.Cause.Certain() && !u.Cause.Optional()
		}
		for _, note := range o.File.Notes() {
			for _, name := range note.Sonames {
				if asked[name] {
					continue
				}
				if asked[name] = true; s.Open(name, o, loader.DlopenNote, note.Feature).Why == "" {
					break // the others are alternatives
				}
			}
		}
		if want == nil {
			continue
		}
		open := func(name string, l files.Literal) {
			if asked[name] {
				return
			}
			asked[name] = true
			p := s.Open(name, o, loader.DlopenString, "")
			if !p.To.Found() && !keep(l.Name) && !(name == l.Path && s.There(name)) && !s.meant(o, l) {
				s.Failed = s.Failed[:len(s.Failed)-1]
			}
		}
		// A file often names several places for one of the driver's libraries, and tries them in turn. One that is in
		// none of them counts once, and only if nothing else leads to it. "/libcuda.so.1" is the end of a path that
		// is put together.
		elsewhere := map[string]bool{}
		for _, l := range o.File.Literals() {
			if driver.Provides(l.Name) && !elsewhere[l.Name] {
				elsewhere[l.Name] = l.Path == "" || s.There(l.Path)
			}
		}
		for _, l := range o.File.Literals() {
			if !want(o, l) || l.Name == o.File.Soname || l.Name == path.Base(o.Path) {
				continue
			}
			// The loader does not search for a path. The linker lets a name share the end of a path.
			if of := driver.Provides(l.Name); l.Path != "" && (of || s.There(l.Path)) {
				if s.There(l.Path) || !elsewhere[l.Name] && path.Dir(l.Path) != "/" {
					elsewhere[l.Name] = true
					open(l.Path, l)
				}
				if of {
					continue
				}
			}
			open(s.versioned(o, l.Name), l)
		}
	}
}

// versioned returns the name by which a library opens a part of its own package that it names without a version. The
// library's version is added if that file is loaded or exists. cuDNN's libcudnn.so.9 contains "libcudnn_ops.so" and
// opens libcudnn_ops.so.9; a distribution's libcudnn_ops.so in /usr/lib may have another version.
func (s *State) versioned(o *loader.Object, name string) string {
	_, version, _ := strings.Cut(o.File.Soname, ".so")
	if version == "" || !strings.HasSuffix(name, ".so") || !driver.PartOf(name, o.File.Soname) {
		return name
	}
	if !slices.ContainsFunc(s.Objects, func(x *loader.Object) bool { return x.Answers(name + version) }) &&
		s.Alone(name+version, o, loader.DlopenString) == nil {
		return name
	}
	return name + version
}

// script opens what the start's script makes its interpreter open.
func (s *State) script() {
	ctypes := s.Main
	for _, w := range s.Start.Opens {
		by := s.Main
		if !w.Module {
			if ctypes == s.Main { // it is the caller of dlopen, by its own run path
				for _, file := range s.Start.CTypes {
					if p := s.Open(file, s.Main, loader.DlopenScript, w.By); p.Why == "" {
						ctypes = p.To
					}
				}
			}
			by = ctypes
		}
		p := s.Open(w.Name, by, loader.DlopenScript, w.By)
		p.Global, p.Sure = w.Global, w.Sure
	}
}

// Parts returns the objects that are in the process, or were before their opening failed, only because of an opening
// that is not sure.
func (s *State) Parts() map[*loader.Object]bool {
	parts := map[*loader.Object]bool{}
	for _, openings := range [][]*loader.Opening{s.Opened, s.Failed} { // what succeeds brings those who open more
		for _, p := range openings {
			if p.Cause == loader.DlopenScript && !p.Sure || parts[p.By] {
				for _, o := range p.Brought {
					parts[o] = true
				}
			}
		}
	}
	for _, o := range s.WithFailed() {
		if s.Start.Part {
			parts[o] = true
		}
	}
	return parts
}

// Find returns the object that a name leads to. If nothing asks for the name, it is opened by the object that has it
// in a note or among its string literals, else by the program.
func (s *State) Find(name string) *loader.Object {
	for _, o := range s.Objects {
		for _, u := range o.Uses {
			if u.Name == name || u.To.File != nil && u.To.File.Soname == name {
				return u.To
			}
		}
	}
	for _, p := range s.Failed {
		if p.Name == name {
			return p.To
		}
	}
	for _, o := range s.Objects {
		if o.File == nil || !o.Found() {
			continue
		}
		for _, note := range o.File.Notes() {
			if slices.Contains(note.Sonames, name) {
				return s.Open(name, o, loader.DlopenNote, note.Feature).To
			}
		}
		if slices.ContainsFunc(o.File.Literals(), func(l files.Literal) bool { return l.Name == name && l.Exact }) {
			return s.Open(name, o, loader.DlopenString, "").To
		}
	}
	return s.Open(name, s.Main, loader.DlopenAsked, "").To
}
