package cli

import (
	"errors"
	"fmt"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/tree"
)

// sweep is a run over all files of a session's paths: a walk, a line in the log and
// an element of the JSON document for each file, and a summary at the end.
type sweep[R any] struct {
	options tree.Options
	// visit looks at a file. It is called from several goroutines.
	visit func(*tree.File) (result R, keep bool)
	// together, where it is not nil, is called with all results before the first is told, and
	// returns what is told.
	together func([]R) ([]R, error)
	// tell counts and logs a result, in the order of the walk, and returns the element
	// of "files", or nil for none.
	tell func(R) any
	// end returns the summary; stopped says how far a run came that was interrupted.
	end func(stopped string) any
	// line, where it is not nil, returns what stands on stdout at the end where there is
	// no document.
	line func() string
}

// run returns command.ErrFailed where the walk did not come to its end.
func (w *sweep[R]) run(s *session) error {
	var doc *jsonDocument
	if s.JSON {
		doc = newDocument(s.Stdout)
	}
	tell := func(r R) {
		if element := w.tell(r); doc != nil && element != nil {
			doc.file(element)
		}
	}
	var all []R
	emit := tell
	if w.together != nil {
		emit = func(r R) { all = append(all, r) }
	}
	w.options.Jobs = s.Jobs
	err := tree.Walk(s.Context, s.Paths, w.options, w.visit, emit)
	if w.together != nil {
		all, together := w.together(all)
		if together != nil {
			return together
		}
		for _, r := range all {
			tell(r)
		}
	}
	text := ""
	var stopped *tree.Stopped
	if errors.As(err, &stopped) {
		text = stopped.Error()
		s.Log.Error(stopped)
	}
	if failed := s.finish(doc, w.end(text), w.line); failed != nil {
		return failed
	}
	if err != nil {
		return command.ErrFailed
	}
	return nil
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

// finish writes what is at the end of stdout.
func (s *session) finish(doc *jsonDocument, summary any, line func() string) error {
	if doc != nil {
		if err := doc.close(summary); err != nil {
			return fmt.Errorf("writing the JSON document: %w", err)
		}
		return nil
	}
	if line != nil && !s.Quiet && !s.Document {
		if _, err := s.Stdout.Write([]byte(line() + "\n")); err != nil {
			return fmt.Errorf("writing the summary: %w", err)
		}
	}
	return nil
}
