package command

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress is a line about how far a run is, which a terminal shows last, once the run has taken a second. Nil shows
// nothing.
type Progress struct {
	mu       sync.Mutex
	terminal io.Writer
	shown    bool
	stop     func()
}

// ShowProgress shows what line returns, again and again, where w is a terminal, until [Progress.Stop].
func ShowProgress(w io.Writer, line func() string) *Progress {
	if !Terminal(w) {
		return nil
	}
	p := &Progress{terminal: w}
	columns := Columns(w)
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
				text := []rune(Printable(line()))
				p.show(string(text[:min(len(text), columns-1)]))
				timer.Reset(200 * time.Millisecond)
			}
		}
	}()
	p.stop = sync.OnceFunc(func() {
		close(quit)
		<-gone
		p.show("")
	})
	return p
}

// Stop takes the line away.
func (p *Progress) Stop() {
	if p != nil {
		p.stop()
	}
}

// Above returns what writes to w, which may be the same terminal, in the line's place.
func (p *Progress) Above(w io.Writer) io.Writer {
	if p == nil || !Terminal(w) {
		return w
	}
	return &above{p, w}
}

type above struct {
	line *Progress
	io.Writer
}

func (a *above) Write(b []byte) (int, error) {
	a.line.mu.Lock()
	defer a.line.mu.Unlock()
	a.line.write("")
	return a.Writer.Write(b)
}

// show writes the line anew; "" takes it away.
func (p *Progress) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(text)
}

func (p *Progress) write(text string) {
	if p.shown || text != "" {
		fmt.Fprint(p.terminal, "\r\x1b[K"+text)
	}
	p.shown = text != ""
}
