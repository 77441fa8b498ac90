package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A file of several names in the walk is edited once as a copy, all of them lead to it then, and only
// the names outside are left with the old one.
func TestCopyKeepsLinksOfTheWalk(t *testing.T) {
	for _, jobs := range []int{1, 4} {
		for _, named := range []bool{false, true} {
			dir := t.TempDir()
			names := []string{"in/a.so", "in/sub/b.so", "two/c.so", "outside.so"}
			for i, name := range names {
				at := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					if err := os.WriteFile(at, []byte("\x7fELF before"), 0o644); err != nil {
						t.Fatal(err)
					}
				} else if err := os.Link(filepath.Join(dir, names[0]), at); err != nil {
					t.Fatal(err)
				}
			}
			paths := []string{dir + "/in", dir + "/two"}
			if named {
				paths = []string{dir + "/in/a.so", dir + "/in/sub/b.so", dir + "/two/c.so"}
			}
			edited, same := 0, 0
			err := Walk(context.Background(), paths, Options{Jobs: jobs}, func(f *File) (error, bool) {
				switch {
				case f.Err != nil:
					return f.Err, true
				case f.SameAs != "":
					if f.SameAs != dir+"/in/a.so" {
						t.Errorf("%s is the same file as %s", f.Path, f.SameAs)
					}
					same++
					return nil, true
				}
				edited++
				err := f.Replace(Replacing{}, func(w Copy) error { _, err := w.WriteAt([]byte("after."), 5); return err })
				if n := f.OutsideLinks(); n != 1 {
					t.Errorf("%d links outside", n)
				}
				return err, true
			}, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
			if err != nil || edited != 1 || same != 2 {
				t.Errorf("%d edited, %d the same: %v", edited, same, err)
			}
			var first unix.Stat_t
			for i, name := range names {
				var st unix.Stat_t
				if err := unix.Stat(filepath.Join(dir, name), &st); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = st
				}
				b, err := os.ReadFile(filepath.Join(dir, name))
				if outside := name == "outside.so"; err != nil || (string(b) == "\x7fELF before") != outside || (st.Ino == first.Ino) == outside || !outside && st.Nlink != 3 {
					t.Errorf("%v, %d jobs: %s: %q, %d links, %v", paths, jobs, name, b, st.Nlink, err)
				}
			}
		}
	}
}

// A path that leads through more links than the kernel follows leads nowhere.
func TestOpenFollowsAsManyLinksAsTheKernel(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("0", []byte("\x7fELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 41 {
		if err := os.Symlink(strconv.Itoa(i), strconv.Itoa(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]error{"40": nil, "41": syscall.ELOOP} {
		f, err := Open(name)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
	}
}
