package fixup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// A FIFO in $NIX_BINTOOLS has no writer: nobody waits for it.
func TestBuildInterpretersDoNotWaitForAFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "nix-support/dynamic-linker")
	if err := os.Mkdir(filepath.Dir(fifo), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := BuildInterpreters(filepath.Dir(filepath.Dir(fifo)))
		read <- err
	}()
	select {
	case err := <-read:
		if !errors.Is(err, regular.ErrNotRegular) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("waits for the writer of a FIFO")
	}
}
