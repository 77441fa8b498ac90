package autopatchelf

import (
	"context"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/starts"
)

// imported is what Python does with the files of a tree, where that is an environment of its, by their real paths. The
// nil value knows of none.
type imported struct {
	// before are the names of libraries that a file finds loaded, by what its package imports for sure.
	before map[string]map[string]bool
	// sure are the files that the import of a package brings, apart those that something else would have to open.
	sure, apart map[string]bool
}

// importing returns what finds out once, where somebody asks, what Python does with the files below some paths. It is
// for what another package manager installed: in a build, the package's own tests tell.
func importing(ctx context.Context, paths []string) func() *imported {
	return sync.OnceValue(func() *imported {
		l, err := loader.New(loader.Options{NoTries: true, Opened: true})
		if err != nil {
			return nil
		}
		m := &imported{map[string]map[string]bool{}, map[string]bool{}, map[string]bool{}}
		for _, path := range paths {
			place, err := starts.PlaceOf(ctx, l, path)
			if err != nil || place == nil || place.Python == nil {
				continue // the walk has said what is wrong
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
				m.add(state)
			}
		}
		return m
	})
}

// python is the interpreter of Python that a path of the arguments is for.
type python struct{ path, real, program string }

// pythons are those of the paths that have one.
type pythons []python

func pythonsOf(paths []string) (all pythons) {
	l, err := loader.New(loader.Options{NoTries: true})
	for _, path := range paths {
		real, unreal := regular.Real(path)
		if err != nil || unreal != nil {
			continue
		}
		if p, _ := starts.PythonIn(l, real); p != nil {
			all = append(all, python{path, real + "/", p.Start.File})
		}
	}
	return all
}

// opens returns the interpreter that opens a file, by its real path; "" for none.
func (all pythons) opens(file string) string {
	for _, p := range all {
		if strings.HasPrefix(file, p.real) {
			return p.program
		}
	}
	return ""
}

// add adds what is known of a process.
func (m *imported) add(s *process.State) {
	parts := s.Parts()
	for _, o := range s.WithFailed() {
		if o.File == nil {
			continue
		}
		if parts[o] {
			m.apart[o.File.Path] = true
		} else {
			m.sure[o.File.Path] = true
		}
		for _, u := range o.Uses {
			if u.To == nil || !u.To.Found() || parts[u.To] {
				continue
			}
			if m.before[o.File.Path] == nil {
				m.before[o.File.Path] = map[string]bool{}
			}
			m.before[o.File.Path][u.Name] = true
		}
	}
}

// loads reports whether a file finds a library loaded.
func (m *imported) loads(file, name string) bool { return m != nil && m.before[file][name] }

// reaches reports whether an import of its package reaches a file, or may.
func (m *imported) reaches(file string) bool { return m == nil || m.sure[file] || !m.apart[file] }
