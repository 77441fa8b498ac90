package cli

import (
	"fmt"
	"time"
)

// progress shows a line about how far a run is, on a terminal, once it has taken a second.
func progress(s *session, line func() string) (stop func()) {
	w := s.Log.Out
	if s.Quiet || !terminal(w) {
		return func() {}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		shown := false
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		for {
			select {
			case <-quit:
				if shown {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			case <-timer.C:
				shown = true
				fmt.Fprint(w, "\r\x1b[K"+line())
				timer.Reset(200 * time.Millisecond)
			}
		}
	}()
	return func() { close(quit); <-gone }
}
