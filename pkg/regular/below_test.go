package regular

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenBelow(t *testing.T) {
	top := t.TempDir()
	tree := filepath.Join(top, "tree")
	for _, f := range []string{"tree/a/b/c/file", "tree/file", "outside/b/c/file", "file"} {
		os.MkdirAll(filepath.Dir(filepath.Join(top, f)), 0o755)
		put(t, filepath.Join(top, f), "")
	}
	for name, target := range map[string]string{"inside": "a", "outside": "../outside", "absolute": top + "/outside", "a/b/link": "c", "a/last": "../file", "root": "/", "self": "/proc/self/root"} {
		if err := os.Symlink(target, filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.Open(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	at := int(dir.Fd())
	before, _ := os.ReadDir("/proc/self/fd")
	for path, want := range map[string]error{
		"": nil, "file": nil, "a/b/c/file": nil, "a": nil, "a/b/c": nil,
		"inside": errLinked, "inside/b": errLinked, "a/b/link": errLinked, "a/b/link/file": errLinked, "a/last": errLinked,
		"outside": errLinked, "outside/b/c/file": errLinked, "absolute/b": errLinked, "root/etc": errLinked, "self/etc": errLinked,
		"gone": unix.ENOENT, "a/gone/file": unix.ENOENT, "file/a": unix.ENOTDIR,
	} {
		fd, err := OpenBelow(at, path, unix.O_RDONLY)
		if err == nil {
			unix.Close(fd)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, want := range map[string]error{"inside": errLinked, "a/b/link": errLinked, "a/b": nil, "file": unix.ENOTDIR, "a/last": errLinked} {
		fd, err := OpenBelow(at, path, unix.O_RDONLY|unix.O_DIRECTORY)
		if err == nil {
			unix.Close(fd)
		}
		if !errors.Is(err, want) {
			t.Errorf("the directory %s: %v", path, err)
		}
	}
	for _, path := range []string{".", "..", "/", "/file", "../file", "a/../file", "a//b", "a/", "./a", "a/./b", "a/..", "a/b/../../../file"} {
		if fd, err := OpenBelow(at, path, unix.O_RDONLY); !errors.Is(err, errNotBelow) {
			unix.Close(fd)
			t.Errorf("%q: %v", path, err)
		}
	}
	if now, _ := os.ReadDir("/proc/self/fd"); len(now) != len(before) {
		t.Errorf("%d descriptors are open, and %d before", len(now), len(before))
	}
}

// A path that is longer than the kernel takes at once (PATH_MAX).
func TestOpenBelowOfALongPath(t *testing.T) {
	top, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	at := int(top.Fd())
	name := strings.Repeat("d", 250)
	const depth = 20
	for range depth {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			t.Fatal(err)
		}
		fd, err := Descriptor(at, name, unix.O_PATH)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		at = fd
	}
	fd, err := OpenBelow(int(top.Fd()), strings.Repeat(name+"/", depth-1)+name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var got, want unix.Stat_t
	if unix.Fstat(fd, &got) != nil || unix.Fstat(at, &want) != nil || got.Ino != want.Ino {
		t.Error("another directory was opened")
	}
}
