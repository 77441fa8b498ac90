package tree

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// asked is a context that counts how often it was asked whether it has ended.
type asked struct {
	context.Context
	n atomic.Int64
}

func (a *asked) Err() error            { a.n.Add(1); return a.Context.Err() }
func (a *asked) Done() <-chan struct{} { a.n.Add(1); return a.Context.Done() }

// A context may cost something once it is asked: package cli's listens for signals then.
// A single file that is only read does not ask. One that is written does, before the first
// write, so that a signal does not end the process between two.
func TestSingleFileAsksTheContextBeforeItWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	os.WriteFile(path, []byte("\x7fELF, so to speak"), 0o644)
	for _, writes := range []bool{false, true} {
		ctx := &asked{Context: context.Background()}
		visits := 0
		err := Walk(ctx, []string{path}, Options{}, func(f *File) (struct{}, bool) {
			visits++
			if n := ctx.n.Load(); n != 0 {
				t.Errorf("asked %d times before the visit", n)
			}
			if !writes {
				return struct{}{}, false
			}
			if err := f.Write(func(Writer) error {
				if ctx.n.Load() == 0 {
					t.Error("writes without having asked")
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			return struct{}{}, false
		}, func(struct{}) {})
		if err != nil || visits != 1 {
			t.Errorf("writes %v: %d visits, %v", writes, visits, err)
		}
		if n := ctx.n.Load(); !writes && n != 0 {
			t.Errorf("asked %d times for a file that is only read", n)
		}
	}
}
