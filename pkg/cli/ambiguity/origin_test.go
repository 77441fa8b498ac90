package ambiguity

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A FIFO in an input of a build has no writer: nobody waits for it.
func TestOriginsDoNotWaitForAFIFO(t *testing.T) {
	input := t.TempDir()
	fifo := filepath.Join(input, "nix-support/propagated-build-inputs")
	if err := os.Mkdir(filepath.Dir(fifo), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	read := make(chan *origins, 1)
	go func() {
		read <- originsOf(func(name string) string { return map[string]string{"buildInputs": input}[name] })
	}()
	select {
	case o := <-read:
		if len(o.inputs) != 1 {
			t.Errorf("%+v", o.inputs)
		}
	case <-time.After(10 * time.Second):
		t.Error("waits for the writer of a FIFO")
	}
}
