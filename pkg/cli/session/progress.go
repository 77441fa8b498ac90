package session

import (
	"sync"

	"cuda-runpath/pkg/cli/command"
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
