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
}

// Importing returns what finds out once, where somebody asks, what Python does with the files below some paths. It is
// for what another package manager installed: in a build, the package's own tests tell.
func Importing(ctx context.Context, l *loader.Loader, paths []string) func() *Imported {
	return sync.OnceValue(func() *Imported {
		m := &Imported{before: map[string]map[string]bool{}, brought: map[string]map[string]bool{}, sure: map[string]bool{},
			sites: map[string]bool{}}
		for _, path := range paths {
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
			if u.To == nil || !u.To.Found() || parts[u.To] {
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

// Reaches reports whether an import of its package reaches a file, or may; what is in no package is for others to open.
func (m *Imported) Reaches(file string) bool {
	return m == nil || m.sure[file] || above(m.sites, file) == ""
}
