package walk

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/tree"
)

// Progress shows a line about how far a run is, on a terminal, once it has taken a second, until stop is called. What the
// session prints meanwhile takes the line's place. Within a run that shows a line already, it shows nothing.
func (s *Session) Progress(line func() string) (stop func()) {
	w, stdout := s.Log.Out, s.Stdout
	if s.Quiet || !command.Terminal(w) || (s.JSON || s.Document) && command.Terminal(stdout) {
		return func() {}
	}
	l := &statusLine{terminal: w}
	s.Log.SetOutput(&above{l, w})
	if command.Terminal(stdout) {
		s.Stdout = &above{l, stdout}
	}
	columns := command.Columns(w)
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		for {
			select {
			case <-quit:
				return
			case <-timer.C:
				text := []rune(command.Printable(line()))
				l.show(string(text[:min(len(text), columns-1)]))
				timer.Reset(200 * time.Millisecond)
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-gone
		l.show("")
		s.Log.SetOutput(w)
		s.Stdout = stdout
	})
}

// statusLine is the last line of a terminal, which is written again and again.
type statusLine struct {
	mu       sync.Mutex
	terminal io.Writer
	shown    bool
}

// show writes it anew; "" takes it away.
func (l *statusLine) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(text)
}

func (l *statusLine) write(text string) {
	if l.shown || text != "" {
		fmt.Fprint(l.terminal, "\r\x1b[K"+text)
	}
	l.shown = text != ""
}

// above writes where a status line is, which it takes away first.
type above struct {
	line *statusLine
	io.Writer
}

func (a *above) Write(b []byte) (int, error) {
	a.line.mu.Lock()
	defer a.line.mu.Unlock()
	a.line.write("")
	return a.Writer.Write(b)
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
