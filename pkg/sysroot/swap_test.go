package sysroot

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whoever owns a tree exchanges a directory of it for a link that leads out of it: what is outside is not opened.
func TestOpenWhileADirectoryIsSwapped(t *testing.T) {
	tree, outside := t.TempDir(), t.TempDir()
	dir, link := filepath.Join(tree, "lib"), filepath.Join(tree, "link")
	for _, f := range []func() error{
		func() error { return os.Mkdir(dir, 0o755) },
		func() error { return os.WriteFile(filepath.Join(dir, "file"), []byte("inside"), 0o644) },
		func() error { return os.WriteFile(filepath.Join(outside, "file"), []byte("outside"), 0o644) },
		func() error { return os.Symlink(outside, link) },
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	var swaps atomic.Int64
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for ; ; swaps.Add(1) {
			select {
			case <-end:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	read := 0
	few := func() bool { return swaps.Load() < 100 || read == 0 }
	// A second, but as long as it takes on a machine that has other things to do.
	for began := time.Now(); time.Since(began) < time.Second || few() && time.Since(began) < time.Minute; {
		b, err := Root{Dir: tree}.ReadFile("/lib/file", 100)
		if err == nil && string(b) != "inside" {
			t.Errorf("read %q", b)
			break
		}
		if err == nil {
			read++
		}
	}
	close(end)
	if <-ended; few() {
		t.Errorf("the test tests nothing: %d swaps, %d reads", swaps.Load(), read)
	}
}
