package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// kept walks paths, and returns the places of their files.
func kept(t *testing.T, paths ...string) []Target {
	t.Helper()
	var roots Roots
	t.Cleanup(roots.Close)
	var targets []Target
	err := Walk(context.Background(), paths, Options{Jobs: 1, Keep: &roots}, func(f *File) (Target, bool) {
		if f.Err != nil {
			t.Errorf("%s: %v", f.Path, f.Err)
		}
		return f.Target(), f.Err == nil
	}, func(p Target) { targets = append(targets, p) })
	if err != nil {
		t.Fatal(err)
	}
	return targets
}

// visitAgain returns what the files of a second pass hold, or "error".
func visitAgain(t *testing.T, targets []Target) (seen []string) {
	t.Helper()
	err := Files(context.Background(), targets, Options{Jobs: 1}, func(f *File) (string, bool) {
		if f.Err != nil {
			return "error", true
		}
		return string(f.Head()[4:]), true
	}, func(s string) { seen = append(seen, s) })
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// A directory that is a link by the time of a second pass leads nowhere, wherever below
// the root it stands. The root itself is the one that was walked, whatever has its name.
func TestSecondPassFollowsNoLink(t *testing.T) {
	top := t.TempDir()
	inside, outside := filepath.Join(top, "tree"), filepath.Join(top, "outside")
	for _, name := range []string{"a/one", "b/c/two", "b/c/three", "four"} {
		elfFile(t, filepath.Join(inside, name), "inside")
		elfFile(t, filepath.Join(outside, name), "outside")
	}
	targets := kept(t, inside)
	link := func(target, name string) error {
		return errors.Join(os.Rename(name, name+".moved"), os.Symlink(target, name))
	}
	if err := errors.Join(link(filepath.Join(outside, "b"), filepath.Join(inside, "b")), link(outside, inside)); err != nil {
		t.Fatal(err)
	}
	if seen := visitAgain(t, targets); !slices.Equal(seen, []string{"inside", "error", "error", "inside"}) {
		t.Errorf("visited %q", seen)
	}
}

// So it is with a file that is an argument, of which the directory is exchanged.
func TestSecondPassOfAFile(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	elfFile(t, "d/file", "inside")
	elfFile(t, "file", "inside")
	elfFile(t, "other/file", "outside")
	targets := kept(t, "d/file", "file")
	if err := errors.Join(os.Rename("d", "moved"), os.Symlink("other", "d")); err != nil {
		t.Fatal(err)
	}
	t.Chdir("other")
	if seen := visitAgain(t, targets); !slices.Equal(seen, []string{"inside", "inside"}) {
		t.Errorf("visited %q", seen)
	}
}

// A file that has taken the place of the one that was walked is not it.
func TestSecondPassOfAnotherFile(t *testing.T) {
	top := t.TempDir()
	for _, name := range []string{"a", "b", "c", "c2", "new"} {
		elfFile(t, filepath.Join(top, "tree", name), name)
	}
	if err := errors.Join(os.Remove(top+"/tree/c2"), os.Link(top+"/tree/c", top+"/tree/c2")); err != nil {
		t.Fatal(err)
	}
	targets := kept(t, top+"/tree")
	if err := os.Rename(top+"/tree/new", top+"/tree/b"); err != nil {
		t.Fatal(err)
	}
	if seen := visitAgain(t, targets); !slices.Equal(seen, []string{"a", "error", "c", "c", "error"}) {
		t.Errorf("visited %q", seen)
	}
}

// A directory that is exchanged for a link while a copy of one of its files is edited does
// not lead the edit out of the tree: also where the file has two names, so that it is
// visited after the walk has left the directory.
func TestCopyOfAHardLinkStaysInItsDirectory(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	elfFile(t, "tree/b/file", "inside")
	elfFile(t, "outside/file", "outside")
	if err := os.Link("tree/b/file", "tree/other"); err != nil {
		t.Fatal(err)
	}
	err := Walk(context.Background(), []string{"tree"}, Options{Jobs: 1}, func(f *File) (error, bool) {
		if f.Err != nil || f.SameAs != "" {
			return nil, false
		}
		return f.Replace(Replacing{}, func(w Copy) error {
			if err := errors.Join(os.Rename("tree/b", "tree/moved"), os.Symlink("../outside", "tree/b")); err != nil {
				t.Error(err)
			}
			_, err := w.WriteAt([]byte("edited"), 4)
			return err
		}), true
	}, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"outside/file": "outside", "tree/moved/file": "edited", "tree/other": "edited"} {
		if b, err := os.ReadFile(name); err != nil || string(b[4:]) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if names, err := os.ReadDir("outside"); err != nil || len(names) != 1 {
		t.Errorf("outside of the tree there are %v, %v", names, err)
	}
}

func TestRootIn(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	elfFile(t, "tree/d/file", "dir")
	elfFile(t, "file", "file")
	if err := errors.Join(os.Symlink("tree", "link"), unix.Mkfifo("fifo", 0o644)); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, name := range []string{"link", "fifo", "gone"} {
		if _, err := RootIn(dir, name, "/x/"+name); err == nil {
			t.Errorf("%s is a root", name)
		}
	}
	for name, file := range map[string]string{"tree": "/x/tree/d/file", "file": "/x/file"} {
		r, err := RootIn(dir, name, "/x/"+name)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		t.Chdir("/")
		for range 2 { // it stays open
			var seen []string
			err := WalkRoot(context.Background(), r, Options{Jobs: 1}, func(f *File) (string, bool) {
				return fmt.Sprint(f.Path, f.Err), true
			}, func(s string) { seen = append(seen, s) })
			if err != nil || !slices.Equal(seen, []string{file + "<nil>"}) {
				t.Errorf("%s: %q, %v", name, seen, err)
			}
		}
		if seen := visitAgain(t, []Target{r.Target(file), r.Target("/x/elsewhere/file"), r.Target("/y")}); seen[0] == "error" || seen[1] != "error" || seen[2] != "error" {
			t.Errorf("%s: visited %q", name, seen)
		}
		t.Chdir(top)
	}
}
