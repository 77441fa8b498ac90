package session

import (
	"sync/atomic"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/tree"
)

// Sweep is a run over all files of a session's paths. What it does not say, the session does.
type Sweep[R Reported] struct {
	Options tree.Options
	// Visit looks at a file. It is called from several goroutines.
	Visit func(*tree.File) (result R, keep bool)
	// Together, where it is not nil, is called with all results before the first is told, and
	// returns what is told.
	Together func([]R) ([]R, error)
	// Tell, where it is not nil, is called with each result, in the order of the walk, before
	// that is told.
	Tell func(R)
	// Nothing, where it is not nil, is called at the end of a walk that came to its end, and returns what is told beside
	// the files: which of the paths had nothing to check.
	Nothing func() []R
	// End, where it is not nil, returns the summary, and what stands on stdout at the end where there is no
	// document. dropped is how many files were not kept.
	End func(sum *Summary, dropped int) (summary any, line string)
}

// Run returns command.ErrFailed where a file failed or the walk did not come to its end.
func (w *Sweep[R]) Run(s *Session) error {
	t := s.Telling()
	tell := func(r R) {
		if w.Tell != nil {
			w.Tell(r)
		}
		t.File(r)
	}
	var all []R
	emit := tell
	if w.Together != nil {
		emit = func(r R) { all = append(all, r) }
	}
	var dropped atomic.Int64
	err := Walk(s, w.Options, func(f *tree.File) (R, bool) {
		r, keep := w.Visit(f)
		if !keep {
			dropped.Add(1)
		}
		return r, keep
	}, emit)
	if w.Together != nil {
		told, late := w.Together(all)
		for _, r := range told {
			tell(r)
		}
		if err == nil {
			err = late
		}
	}
	if w.Nothing != nil && err == nil {
		for _, r := range w.Nothing() {
			tell(r)
		}
	}
	t.Stop(err)
	if w.End == nil {
		return t.End(&t.Sum, "")
	}
	return t.End(w.End(&t.Sum, int(dropped.Load())))
}

// Walk is [tree.Walk] over the session's paths, with its progress.
func Walk[R any](s *Session, o tree.Options, visit func(*tree.File) (result R, keep bool), emit func(R)) error {
	o.Jobs = s.Jobs
	if OneFile(s.Paths) {
		return tree.Walk(s.Context, s.Paths, o, visit, emit)
	}
	var n atomic.Int64
	var at atomic.Pointer[string] // the path of the file that was begun last
	defer s.Progress(func() string {
		text := Count(int(n.Load()), "file", "files") + " looked at"
		if path := at.Load(); path != nil {
			text += ": " + *path
		}
		return text
	})()
	return tree.Walk(s.Context, s.Paths, o, func(f *tree.File) (R, bool) {
		at.Store(&f.Path)
		defer n.Add(1)
		return visit(f)
	}, emit)
}

// Tolerates reports whether a file's failure is a warning, as it is under --malformed warn.
func (s *Session) Tolerates(f *tree.File, err error) bool {
	return s.Tolerant && (elfimage.IsMalformed(err) || f.Unreadable())
}

// ParseError returns what is wrong with an open file as an ELF image. The loader's
// reasons, which a check gives, are in the loader's words and have no type.
func ParseError(f *tree.File) error {
	if f.Err != nil {
		return f.Err
	}
	im, err := elfimage.ParseHead(f, f.Size(), f.Head())
	if err == nil {
		im.Release()
	}
	return err
}
