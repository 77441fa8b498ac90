package tree

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// Where no new file can take a file's place, that stays, the reason is said, and whether the file itself can be written.
func TestWhereNoNewFileCanBe(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, and another user")
	}
	const user = 1234
	for name, c := range map[string]struct {
		prepare func(dir, path string) error
		why     string
		inPlace bool
	}{
		"a directory that may not be written": {func(dir, path string) error { return os.Chown(path, user, user) }, "the directory may not be written", true},
		"neither may the file":                {func(dir, path string) error { return os.Chmod(path, 0o644) }, "the directory may not be written", false},
		"one's own read-only file":            {func(dir, path string) error { return errors.Join(os.Chown(path, user, user), os.Chmod(path, 0o444)) }, "the directory may not be written", true},
		"a sticky directory": {func(dir, path string) error {
			return errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Chown(path, 99, user), os.Chmod(path, 0o666))
		}, "it would have another owner or group", true},
		"another's file, in one's own directory": {func(dir, path string) error {
			return errors.Join(os.Chown(dir, user, user), os.Chmod(path, 0o644))
		}, "it would have another owner or group", false},
		"a group of others": {func(dir, path string) error { return errors.Join(os.Chown(dir, user, user), os.Chown(path, user, 99)) }, "it would have another owner or group", true},
		"a set-group-ID bit": {func(dir, path string) error {
			return errors.Join(os.Chown(dir, user, 99), os.Chmod(dir, 0o755|os.ModeSetgid), os.Chown(path, user, 99), os.Chmod(path, 0o755|os.ModeSetgid))
		}, "it would have another owner or group", true},
	} {
		top := t.TempDir()
		dir, path := filepath.Join(top, "in"), filepath.Join(top, "in", "file")
		elfFile(t, path, "before")
		if err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755), c.prepare(dir, path)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and the thread ends with the goroutine
			if err := errors.Join(unix.Setfsgid(user), unix.Setfsuid(user)); err != nil {
				done <- err
				return
			}
			f, err := Open(path)
			if err == nil {
				err = f.Replace(Replacing{}, func(w Copy) error { _, err := w.WriteAt([]byte("after."), 4); return err })
				f.Close()
			}
			done <- err
		}()
		err := <-done
		var none *NoNewFileError
		if !errors.As(err, &none) || none.Why != c.why || none.InPlace != c.inPlace {
			t.Errorf("%s: %v, %+v", name, err, none)
		}
		if b, err := os.ReadFile(path); string(b) != "\x7fELFbefore" || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}

// Of a file with several names none is renamed where one cannot be; a name that another file has by now is that one's.
func TestAllNamesOrNone(t *testing.T) {
	for _, immutable := range []bool{true, false} {
		dir := t.TempDir()
		elfFile(t, dir+"/a/file", "before")
		if err := errors.Join(os.Mkdir(dir+"/b", 0o755), os.Link(dir+"/a/file", dir+"/b/file")); err != nil {
			t.Fatal(err)
		}
		lock := func(flag uint32) error { // FS_IMMUTABLE_FL, ioctl_iflags(2)
			b, err := os.Open(dir + "/b")
			if err == nil {
				err = unix.IoctlSetPointerInt(int(b.Fd()), unix.FS_IOC_SETFLAGS, int(flag))
				b.Close()
			}
			return err
		}
		var got []error
		Walk(context.Background(), []string{dir}, Options{Jobs: 1}, func(f *File) (error, bool) {
			if f.SameAs != "" {
				return nil, false
			}
			var err error
			if immutable {
				if err := lock(0x10); err != nil {
					t.Skip("no immutable directories here: ", err)
				}
			} else if strings.HasSuffix(f.Path, "a/file") {
				err = errors.Join(os.Remove(dir+"/b/file"), os.WriteFile(dir+"/b/file", []byte("\x7fELFother."), 0o644))
			}
			return errors.Join(err, f.Replace(Replacing{}, func(w Copy) error { _, err := w.WriteAt([]byte("after."), 4); return err })), true
		}, func(err error) { got = append(got, err) })
		if immutable {
			if err := lock(0); err != nil {
				t.Fatal(err)
			}
		}
		failed := len(got) == 1 && got[0] != nil && strings.Contains(got[0].Error(), "its other name "+dir+"/b/file: no new file can take its place")
		if immutable && !failed || !immutable && (len(got) == 0 || errors.Join(got...) != nil) {
			t.Errorf("immutable %v: %v", immutable, got)
		}
		a, err1 := os.ReadFile(dir + "/a/file")
		b, err2 := os.ReadFile(dir + "/b/file")
		want := [2]string{"after.", "after."}
		if immutable {
			want = [2]string{"before", "before"}
		} else if len(got) == 1 {
			want[1] = "other." // the walk had listed b before the file there was another
		}
		if err1 != nil || err2 != nil || string(a) != "\x7fELF"+want[0] || string(b) != "\x7fELF"+want[1] {
			t.Errorf("immutable %v: %q, %q", immutable, a, b)
		}
		if left, _ := filepath.Glob(dir + "/*/.*"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}
