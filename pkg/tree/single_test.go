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

// To listen for signals costs a start more than the edit: for a single file a context is not
// asked, and a signal ends the process, which leaves the file as it was or as edited.
func TestSingleFileDoesNotAskTheContext(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	os.WriteFile(path, []byte("\x7fELF, so to speak"), 0o644)
	for arg, asks := range map[string]bool{path: false, dir: true} {
		ctx := &asked{Context: context.Background()}
		visits := 0
		err := Walk(ctx, []string{arg}, Options{}, func(f *File) (struct{}, bool) {
			visits++
			if err := f.Write(func(Writer) error { return nil }); err != nil {
				t.Error(err)
			}
			return struct{}{}, false
		}, func(struct{}) {})
		if err != nil || visits != 1 {
			t.Errorf("%s: %d visits, %v", arg, visits, err)
		}
		if n := ctx.n.Load(); (n > 0) != asks {
			t.Errorf("%s: asked %d times", arg, n)
		}
	}
}
