package starts

import (
	"context"
	"path"
	"slices"
	"sync"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
)

// Imported is what Python does with the files of places, of environments of its, by their real paths. The nil value
// knows of none.
type Imported struct {
	// before are the names of libraries that a file finds loaded, by what its package imports for sure.
	before map[string]map[string]bool
	// brought are the names of the libraries that the import of a package loads for sure, by its directory, or that of a
	// library in it: what lies there, and no import opens, its own code opens later.
	brought map[string]map[string]bool
	// sure are the files that the import of a package brings, or that a person starts; sites the directories of packages.
	sure, sites map[string]bool
	// finds are the files, each with a name, whose own search finds that in the process that opens them. fails says why
	// a file cannot be opened there; opened are the files that a process opens.
	finds  map[[2]string]bool
	fails  map[string]string
	opened map[string]bool
}

// Importing returns what finds out once, where somebody asks, what Python does with the files below some paths. It is
// for what another package manager installed: in a build, the package's own tests tell.
func Importing(ctx context.Context, l *loader.Loader, paths []string) func() *Imported {
	return sync.OnceValue(func() *Imported {
		m := &Imported{before: map[string]map[string]bool{}, brought: map[string]map[string]bool{}, sure: map[string]bool{},
			sites: map[string]bool{}, finds: map[[2]string]bool{}, fails: map[string]string{}, opened: map[string]bool{}}
		for _, path := range paths {
			dir := l.Absolute(l.Path(path))
			if python, _ := pythonIn(l, dir); python == nil && l.Files().IsDir(dir) { // no walk for what imports nothing
				continue
			}
			place, err := PlaceOf(ctx, l, l.Path(path))
			if err != nil || place == nil || place.Python == nil {
				continue // the walk has said what is wrong
			}
			for _, site := range place.Python.Sites {
				m.sites[l.Files().At(site).Host] = true
			}
			for _, start := range slices.Concat(place.Starts, place.Others) {
				start.Part = false // a program is for a person to start
				state, err := start.Begin(l)
				if err != nil {
					continue
				}
				if start.As != "" {
					state.OpenAll(nil, nil)
				}
				m.add(state, m.beside(l, start.As))
			}
		}
		return m
	})
}

// beside returns what is known to be brought for what lies in a package, or beside a library of one; nil of neither.
func (m *Imported) beside(l *loader.Loader, as string) map[string]bool {
	dir := l.Files().At(as).Host
	if !l.Files().IsDir(as) {
		dir = path.Dir(dir)
	}
	if as == "" || m.sites[dir] {
		return nil
	}
	if m.brought[dir] == nil {
		m.brought[dir] = map[string]bool{}
	}
	return m.brought[dir]
}

// add adds what is known of a process, and to brought, if not nil, the names of what is loaded in it for sure.
func (m *Imported) add(s *process.State, brought map[string]bool) {
	for _, p := range s.Failed {
		if len(p.Lacks) > 0 && p.Later == nil {
			m.fails[p.To.File.Path] = p.Why
		}
	}
	for _, o := range s.Objects {
		if o.File != nil {
			m.opened[o.File.Path] = true
		}
	}
	parts := s.Parts()
	for _, o := range s.WithFailed() {
		if o.File == nil {
			continue
		}
		if !parts[o] {
			m.sure[o.File.Path] = true
			if brought != nil {
				brought[o.File.Soname], brought[path.Base(o.File.Path)] = true, true
			}
		}
		if m.before[o.File.Path] == nil {
			m.before[o.File.Path] = map[string]bool{}
		}
		for _, u := range o.Uses {
			if u.To == nil || !u.To.Found() {
				continue
			}
			if u.To.NeededBy == o {
				m.finds[[2]string{o.File.Path, u.Name}] = true
			}
			if parts[u.To] {
				continue
			}
			m.before[o.File.Path][u.Name] = true
		}
	}
}

// Loads reports whether a file finds a library loaded.
func (m *Imported) Loads(file, name string) bool {
	if m == nil {
		return false
	}
	if before, opened := m.before[file]; opened {
		return before[name]
	}
	for dir := path.Dir(file); dir != "/"; dir = path.Dir(dir) {
		if m.brought[dir][name] {
			return true
		}
	}
	return false
}

// Finds reports whether a file's own search finds a library in the process of the Python that opens the file, as by a
// DT_RPATH of conda's.
func (m *Imported) Finds(file, name string) bool { return m != nil && m.finds[[2]string{file, name}] }

// Fails says which versions what Python has loaded lacks, so that it cannot open a file; "" for none, and where one of
// the processes opens it.
func (m *Imported) Fails(file string) string {
	if m == nil || m.opened[file] {
		return ""
	}
	return m.fails[file]
}

// Reaches reports whether an import of its package reaches a file, or may; what is in no package is for others to open.
func (m *Imported) Reaches(file string) bool {
	return m == nil || m.sure[file] || above(m.sites, file) == ""
}
