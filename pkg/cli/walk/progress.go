package walk

import (
	"sync"
	"sync/atomic"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/tree"
)

// Progress shows a line about how far a run is, on a terminal, until stop is called. What the session prints meanwhile
// takes the line's place. Within a run that shows a line already, it shows nothing.
func (s *Session) Progress(line func() string) (stop func()) {
	stderr, stdout := s.Log.Out, s.Stdout
	if s.Quiet || (s.JSON || s.Document) && command.Terminal(stdout) {
		return func() {}
	}
	p := command.ShowProgress(stderr, line)
	s.Log.SetOutput(p.Above(stderr))
	s.Stdout = p.Above(stdout)
	return sync.OnceFunc(func() {
		p.Stop()
		s.Log.SetOutput(stderr)
		s.Stdout = stdout
	})
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
