package explain

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/elfimage"
)

// A script that is a FIFO by the time that it is opened keeps nobody waiting for a writer.
func TestHintDoesNotWaitForAFIFO(t *testing.T) {
	name := filepath.Join(t.TempDir(), "script")
	if err := unix.Mkfifo(name, 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() { done <- hint(nil, name, elfimage.ErrNotELF) }()
	select {
	case h := <-done:
		if h != "" {
			t.Error(h)
		}
	case <-time.After(time.Minute):
		t.Error("it is waited for")
	}
}
