package tree

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// A copy that an edit which was killed has left is removed and said by who edits, and visited
// as a file by nobody. One that is being edited, and a package's own file, stay.
func TestLeftoverCopies(t *testing.T) {
	dir := t.TempDir()
	dead, alive := filepath.Join(dir, regular.TempName(0, "a.so")), filepath.Join(dir, regular.TempName(7, "b.so"))
	own := []string{".runpath-copy.1.2.a.so", "a.so"}
	for _, like := range []string{"", "a.so", "0.a.so", "0.0.a.so", "1.2.a.so", "0.01234567.a.so", "x.01234567.a.so"} {
		own = append(own, regular.Temporary+like)
	}
	slices.Sort(own)
	for _, name := range own {
		elfFile(t, dir+"/"+name, "")
	}
	for _, path := range []string{dead, alive} {
		elfFile(t, path, "")
	}
	editor, err := os.Open(alive)
	if err != nil {
		t.Fatal(err)
	}
	defer editor.Close()
	if err := unix.Flock(int(editor.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, edits := range []bool{false, true, true} {
		var visited, removed []string
		var o Options
		if edits {
			o = Options{Leftover: func(path string, err error) {
				if removed = append(removed, path); err != nil {
					t.Error(err)
				}
			}}
		}
		_, err := os.Lstat(dead)
		want := []string{dead}
		if !edits || err != nil {
			want = nil
		}
		Walk(context.Background(), []string{dir}, o, func(f *File) (string, bool) { return filepath.Base(f.Path), true }, func(s string) { visited = append(visited, s) })
		if !slices.Equal(visited, own) || !slices.Equal(removed, want) {
			t.Errorf("visited %q, removed %q", visited, removed)
		}
		if _, err := os.Lstat(dead); errors.Is(err, os.ErrNotExist) != edits {
			t.Errorf("edits %v: %v", edits, err)
		}
		if _, err := os.Lstat(alive); err != nil {
			t.Error(err)
		}
	}
}

// A copy is made without a name, so that a kill leaves nothing, and with one where the file
// system cannot do so. Either way nothing is left of an edit that fails.
func TestACopyHasNoNameUntilItIsWhole(t *testing.T) {
	dir := t.TempDir()
	elfFile(t, dir+"/a", "before")
	names := func() string {
		entries, _ := os.ReadDir(dir)
		var s []string
		for _, e := range entries {
			s = append(s, e.Name())
		}
		return strings.Join(s, " ")
	}
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600); err != nil {
		t.Skip("no O_TMPFILE here: ", err)
	} else {
		unix.Close(fd)
	}
	failure := errors.New("failed")
	for _, fail := range []error{failure, nil} {
		Walk(context.Background(), []string{dir}, Options{}, func(f *File) (error, bool) {
			return f.Replace(Replacing{}, func(w Copy) error {
				if _, err := w.WriteAt([]byte("after."), 4); err != nil {
					t.Error(err)
				}
				if n := names(); n != "a" {
					t.Errorf("while a copy is written the directory has %q", n)
				}
				return fail
			}), true
		}, func(err error) {
			if !errors.Is(err, fail) {
				t.Error(err)
			}
		})
		if n := names(); n != "a" {
			t.Errorf("left: %q", n)
		}
	}
}

// The name of a copy fits where the file's own does, in whatever characters; and what is in the way of it is gone around.
func TestTheNameOfACopy(t *testing.T) {
	dir := t.TempDir()
	copies := func() (failed error) {
		Walk(context.Background(), []string{dir}, Options{}, func(f *File) (error, bool) {
			if f.SameAs != "" {
				return nil, false
			}
			return f.Replace(Replacing{}, func(w Copy) error { _, err := w.WriteAt([]byte("after."), 4); return err }), true
		}, func(err error) { failed = errors.Join(failed, err) })
		return failed
	}
	long, ascii := strings.Repeat("好", 80)+".so", strings.Repeat("a", 255)
	link := long[3:] + "....."
	for _, name := range []string{long, ascii, "a.so"} {
		elfFile(t, filepath.Join(dir, name), "before")
	}
	if err := os.Link(filepath.Join(dir, long), filepath.Join(dir, link)); err != nil {
		t.Fatal(err)
	}
	if err := copies(); err != nil {
		t.Error(err)
	}
	one, err1 := os.Stat(filepath.Join(dir, long))
	other, err2 := os.Stat(filepath.Join(dir, link))
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(one, other) {
		t.Errorf("the links are parted, %v", err)
	}
	// What cannot be removed is passed over; what a killed edit has left is removed.
	for try, left := range []func(string) error{
		func(name string) error { return os.Mkdir(name, 0o700) },
		func(name string) error { return unix.Mkfifo(name, 0o600) },
		func(name string) error { return os.WriteFile(name, nil, 0o600) },
	} {
		if err := left(filepath.Join(dir, regular.TempName(try, "a.so"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := copies(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(dir + "/.*"); len(left) != 2 {
		t.Errorf("left: %q", left)
	}
}

// The ACL that a directory gives to new files is not one that the file had.
func TestCopyInADirectoryWithADefaultACL(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	elfFile(t, path, "before")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("setfacl", "-d", "-m", "u:1234:rwx,g:4321:rw", dir).CombinedOutput(); err != nil {
		t.Skipf("setfacl: %v, %s", err, out)
	}
	edit := func() {
		Walk(context.Background(), []string{path}, Options{}, func(f *File) (error, bool) {
			return f.Replace(Replacing{}, func(w Copy) error { _, err := w.WriteAt([]byte("after."), 4); return err }), true
		}, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	acl := func() string {
		b := make([]byte, 1000)
		n, err := unix.Getxattr(path, "system.posix_acl_access", b)
		if err != nil {
			return ""
		}
		return string(b[:n])
	}
	edit()
	if st, err := os.Stat(path); acl() != "" || err != nil || st.Mode() != 0o640 {
		t.Errorf("mode %v, ACL %q", st.Mode(), acl())
	}
	if out, err := exec.Command("setfacl", "-m", "u:99:r", path).CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	before := acl()
	edit()
	if acl() != before || before == "" {
		t.Errorf("the ACL %q became %q", before, acl())
	}
}
