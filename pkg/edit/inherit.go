package edit

import (
	"debug/elf"
	"path/filepath"

	"cuda-runpath/pkg/loader"
)

// Inheritance finds out what the edits of a walk do to libraries that inherit a DT_RPATH: those do not that
// have a DT_RUNPATH, and nothing inherits one (elf/dl-load.c).
type Inheritance struct {
	edited []inheritor
	lost   bool // one of them had a DT_RPATH, and has a DT_RUNPATH
}

type inheritor struct {
	path     string
	from, to State
}

func (i *inheritor) loses() bool { return i.from.Tag == elf.DT_RPATH && i.to.Tag == elf.DT_RUNPATH }

// Add takes what came of the file at a path.
func (n *Inheritance) Add(path string, r *RunPathResult) {
	if r.Action == Edited {
		i := inheritor{path, r.Before, r.After}
		n.edited, n.lost = append(n.edited, i), n.lost || i.loses()
	}
}

// Lost calls tell for each library that was found when the file at a path was loaded, by its DT_RPATH, and is not after the edits.
func (n *Inheritance) Lost(tell func(path string, lib *loader.Object)) {
	if !n.lost {
		return
	}
	from, to := map[string]State{}, map[string]State{}
	for _, i := range n.edited {
		if real, err := filepath.EvalSymlinks(i.path); err == nil {
			if real, err = filepath.Abs(real); err == nil {
				from[real], to[real] = i.from, i.to
			}
		}
	}
	l, err := loader.New(loader.Options{NoTries: true})
	if err != nil {
		return
	}
	as := func(states map[string]State) *loader.Loader {
		return l.Edited(func(f *loader.File) {
			if t, ok := states[f.Path]; ok {
				f.Tag, f.List, f.RPath, f.Shadow = t.Tag, t.List.String(), "", false
				f.Note, f.NoteErr = nil, nil // a right one leads nowhere else
			}
		})
	}
	missing := func(l *loader.Loader, path string) []*loader.Object {
		load, err := l.Load(path)
		if err != nil || load.Static {
			return nil
		}
		return load.Missing()
	}
	before, after := as(from), as(to)
	for _, i := range n.edited {
		if !i.loses() {
			continue
		}
		missed := map[[2]string]bool{}
		for _, lib := range missing(before, i.path) {
			missed[[2]string{lib.Name, lib.NeededBy.Path}] = true
		}
		for _, lib := range missing(after, i.path) {
			if !missed[[2]string{lib.Name, lib.NeededBy.Path}] {
				tell(i.path, lib)
			}
		}
	}
}
