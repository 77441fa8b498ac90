package cli

import (
	"fmt"
	"sync/atomic"

	"cuda-runpath/pkg/tree"
)

// sweep is a run over all files of a session's paths. What it does not say, [telling] does.
type sweep[R report] struct {
	options tree.Options
	// visit looks at a file. It is called from several goroutines.
	visit func(*tree.File) (result R, keep bool)
	// together, where it is not nil, is called with all results before the first is told, and
	// returns what is told.
	together func([]R) ([]R, error)
	// tell, where it is not nil, is called with each result, in the order of the walk, before
	// that is told.
	tell func(R)
	// nothing, where it is not nil, is called at the end of a walk that came to its end, and returns what is told beside
	// the files: which of the paths had nothing to check.
	nothing func() []R
	// end, where it is not nil, returns the summary, and what stands on stdout at the end where there is no
	// document. dropped is how many files were not kept.
	end func(sum *runSummary, dropped int) (summary any, line string)
}

// run returns command.ErrFailed where a file failed or the walk did not come to its end.
func (w *sweep[R]) run(s *session) error {
	t := s.telling()
	tell := func(r R) {
		if w.tell != nil {
			w.tell(r)
		}
		t.file(r)
	}
	var all []R
	emit := tell
	if w.together != nil {
		emit = func(r R) { all = append(all, r) }
	}
	var dropped atomic.Int64
	err := walk(s, w.options, func(f *tree.File) (R, bool) {
		r, keep := w.visit(f)
		if !keep {
			dropped.Add(1)
		}
		return r, keep
	}, emit)
	if w.together != nil {
		told, late := w.together(all)
		for _, r := range told {
			tell(r)
		}
		if err == nil {
			err = late
		}
	}
	if w.nothing != nil && err == nil {
		for _, r := range w.nothing() {
			tell(r)
		}
	}
	t.stop(err)
	if w.end == nil {
		return t.end(&t.sum, "")
	}
	return t.end(w.end(&t.sum, int(dropped.Load())))
}

// leftover says that a copy was removed that an edit which was killed has left; see [tree.Options].
// A dry run leaves it.
func (s *session) leftover() func(path string, err error) {
	if s.DryRun {
		return nil
	}
	return func(path string, err error) {
		log := s.Log.WithField("path", path)
		if err != nil {
			log.Errorf("is a copy that an edit which was killed has left, and cannot be removed: %v", err)
			return
		}
		log.Warn("was a copy that an edit which was killed has left; removed")
	}
}

// say prints a line to stdout, where that takes text. [command.Run] knows what could not be
// written.
func (s *session) say(format string, args ...any) {
	if !s.JSON && !s.Document {
		fmt.Fprintf(s.Stdout, format+"\n", args...)
	}
}
