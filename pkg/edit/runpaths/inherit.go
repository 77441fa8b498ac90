package runpaths

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// Inherits returns what a file of a walk, by its path there, finds by a DT_RPATH that it inherits or hands on, and
// would not find with a DT_RUNPATH; nil for nothing.
type Inherits func(path string) (*edit.Loss, error)

// InheritsAmong returns such a function for the files of a walk; would says what is to become of one of them. Nothing
// is read before it is asked, and then little of each file unless one has a DT_RPATH.
func InheritsAmong(walk func(look func(*tree.File)) error, would func(*tree.File) (edit.Move, bool)) Inherits {
	keep := sync.OnceValues(func() (map[string]edit.Loss, error) {
		var found atomic.Bool
		err := walk(func(f *tree.File) {
			if !found.Load() && mayHaveRPath(f) {
				found.Store(true)
			}
		})
		if err != nil || !found.Load() {
			return nil, err
		}
		var mu sync.Mutex
		var moves []edit.Move
		err = walk(func(f *tree.File) {
			if m, ok := would(f); ok {
				mu.Lock()
				defer mu.Unlock()
				moves = append(moves, m)
			}
		})
		if err != nil {
			return nil, err
		}
		slices.SortFunc(moves, func(a, b edit.Move) int { return strings.Compare(a.Path, b.Path) })
		return edit.KeepRPath(nil, moves), nil
	})
	return func(path string) (*edit.Loss, error) {
		all, err := keep()
		if err != nil {
			return nil, fmt.Errorf("what it inherits is not known: %w", err)
		}
		if loss, ok := all[path]; ok {
			return &loss, nil
		}
		return nil, nil
	}
}

// mayHaveRPath reports whether a file of a walk has a DT_RPATH, or cannot be read as the loader reads it.
func mayHaveRPath(f *tree.File) bool {
	if f.Err != nil || !f.ELF() || f.SameAs != "" {
		return false
	}
	im, err := elfimage.ParseLoad(f, f.Size(), f.Head())
	if err != nil {
		return true
	}
	defer im.Release()
	_, has := im.Dyn(elf.DT_RPATH)
	return has
}

// Would returns what an edit would do to the run path of a file whose decision is decide, which is asked, and states
// then; ok is false where it has no place for one, or cannot be read.
func Would(f *tree.File, decide edit.Decide, states func() (from, to edit.State)) (m edit.Move, ok bool) {
	if f.Err != nil || !f.ELF() || f.SameAs != "" {
		return m, false
	}
	planned, err := edit.Read(f, func(im *elfimage.Image) (*elfedit.Change, string, error) {
		_, _, err := decide(im)
		ok = im.SkipReason() == "" && err == nil
		return nil, "not now", err
	})
	planned.Release()
	m.Path = f.Path
	m.From, m.To = states()
	return m, ok && err == nil
}

// StateOf reads a file's run path.
func StateOf(im *elfimage.Image) (edit.State, error) {
	tag, list, err := im.RunPath()
	return edit.State{Tag: tag, List: runpath.Parse(list)}, err
}

// Change returns the change that gives a file a run path, or nil where it has that:
// an empty list and no tag are the same to the loader. shadowed is the DT_RPATH that is lost,
// where the file has one beside its DT_RUNPATH. kept is why it is a DT_RPATH although that was not asked for.
func Change(im *elfimage.Image, path string, after runpath.List, rpath bool,
	inherits Inherits) (c *elfedit.RunPath, shadowed *string, kept *edit.Loss, err error) {
	tag, list, err := im.RunPath()
	if err != nil {
		return nil, nil, nil, err
	}
	old, both, err := im.Shadowed()
	if err != nil {
		return nil, nil, nil, err
	}
	c = &elfedit.RunPath{Tag: elf.DT_RUNPATH, List: after.String()}
	switch {
	case c.List == "":
		c.Tag = elf.DT_NULL
	case rpath:
		c.Tag = elf.DT_RPATH
	case tag != elf.DT_RUNPATH && inherits != nil:
		if kept, err = inherits(path); err != nil {
			return nil, nil, nil, err
		}
		if kept != nil {
			c.Tag = elf.DT_RPATH
		}
	}
	switch {
	case both:
		return c, &old, kept, nil
	case c.List == list && (c.Tag == tag || list == ""):
		return nil, nil, kept, nil
	}
	return c, nil, kept, nil
}
