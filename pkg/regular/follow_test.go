package regular

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A path leads where the kernel says, through as many links as the kernel follows, and no more.
func TestRealIsTheKernels(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := errors.Join(os.MkdirAll("a/b", 0o755), os.Symlink("a/b", "relative"), os.Symlink(dir+"/a", "absolute"),
		os.Symlink("loop", "loop"), os.Symlink("none", "dangling"), os.Symlink("../file", "a/up")); err != nil {
		t.Fatal(err)
	}
	put(t, "file", "")
	put(t, "a/b/file", "")
	names := []string{"file", "file/", "file/.", "a/../file", "relative/..", "relative/file", "relative/../b/file", "absolute/b",
		"absolute/../file", "loop", "dangling", "a/up", "a/up/", "absolute/up", "none/..", "a//b/./file", ".", "../..", "/.."}
	before := "file"
	for i := 1; i <= 42; i++ {
		name := fmt.Sprintf("link%d", i)
		if err := os.Symlink(before, name); err != nil {
			t.Fatal(err)
		}
		before = name
		names = append(names, name)
	}
	for _, name := range names {
		got, err := Real(name)
		fd, kernel := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		// A walk that begins again while something is mounted counts its links twice.
		for try := 0; kernel == unix.ELOOP && try < 20; try++ {
			fd, kernel = unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		}
		want := ""
		if kernel == nil {
			want, kernel = os.Readlink(ProcPath(fd))
			unix.Close(fd)
		}
		if got != want || !errors.Is(err, kernel) {
			t.Errorf("%s leads to %q, %v; by the kernel to %q, %v", name, got, err, want, kernel)
		}
	}
}

// A new file is put in no place that nothing has any more, where it was to take the place of something.
func TestRenameReplacesOnlyWhatItIsFor(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	was := filepath.Join(dir.Name(), "report")
	put(t, was, "old")
	var st unix.Stat_t
	if err := unix.Stat(was, &st); err != nil {
		t.Fatal(err)
	}
	its := func(now *unix.Stat_t) bool { return now.Ino == st.Ino }
	put(t, was+".theirs", "theirs")
	for _, change := range []func() error{
		func() error { return os.Remove(was) },
		func() error { return os.Rename(was+".theirs", was) },
	} {
		n, err := NewNameless(int(dir.Fd()), "report")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(n.Name(), change()); err != nil {
			t.Fatal(err)
		}
		if err := n.Rename(0, its); !errors.Is(err, ErrChanged) {
			t.Error(err)
		}
		n.Close()
	}
	if b, err := os.ReadFile(was); string(b) != "theirs" {
		t.Errorf("%q, %v", b, err)
	}
}
