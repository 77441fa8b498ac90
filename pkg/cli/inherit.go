package cli

import (
	"debug/elf"
	"path/filepath"

	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/loader"
)

// inheritance finds out what a walk does to libraries that inherit a DT_RPATH: those do not that
// have a DT_RUNPATH, and nothing inherits one (elf/dl-load.c).
type inheritance struct {
	edited []*outcome
	lost   bool // one of them had a DT_RPATH, and has a DT_RUNPATH
}

func (n *inheritance) add(o *outcome) {
	if o.Action == edit.Edited {
		n.edited = append(n.edited, o)
		n.lost = n.lost || o.from.Tag == elf.DT_RPATH && o.to.Tag == elf.DT_RUNPATH
	}
}

// tell warns of the libraries that were found, and are not after the walk.
func (n *inheritance) tell(s *session) {
	if !n.lost {
		return
	}
	from, to := map[string]edit.State{}, map[string]edit.State{}
	for _, o := range n.edited {
		if real, err := filepath.EvalSymlinks(o.Path); err == nil {
			if real, err = filepath.Abs(real); err == nil {
				from[real], to[real] = o.from, o.to
			}
		}
	}
	l, err := loader.New(loader.Options{NoTries: true})
	if err != nil {
		return
	}
	as := func(states map[string]edit.State) *loader.Loader {
		return l.Edited(func(f *loader.File) {
			if t, ok := states[f.Path]; ok {
				f.Tag, f.List, f.RPath, f.Shadow = t.Tag, t.List.String(), "", false
				f.Note, f.NoteErr = nil, nil // a right one leads nowhere else
			}
		})
	}
	before, after := as(from), as(to)
	for _, o := range n.edited {
		if o.from.Tag != elf.DT_RPATH || o.to.Tag != elf.DT_RUNPATH {
			continue
		}
		missed := map[string]bool{}
		for _, lib := range missing(before, o.Path) {
			missed[lib.Name+"\x00"+lib.NeededBy.Path] = true
		}
		for _, lib := range missing(after, o.Path) {
			if !missed[lib.Name+"\x00"+lib.NeededBy.Path] {
				s.Log.WithField("path", o.Path).Warnf("%s, which %s needs, was found by the DT_RPATH, which libraries inherit, and is not found any more: they do not inherit a DT_RUNPATH. autoPatchelf gives it an entry of its own",
					lib.Name, lib.NeededBy.Path)
			}
		}
	}
}

func missing(l *loader.Loader, path string) []*loader.Object {
	load, err := l.Load(path)
	if err != nil || load.Static {
		return nil
	}
	return load.Missing()
}
