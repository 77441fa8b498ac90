package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writer returns the function that edits a file in place, or a copy of it.
func writer(f *File, byCopy bool) func(func(Writer) error) error {
	if !byCopy {
		return f.Write
	}
	return func(apply func(Writer) error) error {
		return f.Replace(Replacing{}, func(w Copy) error { return apply(w) })
	}
}

// editByte writes the byte of a file at off, with all the others as it has read them, as an
// edit that was planned does.
func editByte(f *File, off int, write func(func(Writer) error) error) error {
	if f.Err != nil {
		return f.Err
	}
	b := make([]byte, f.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	b[off] = 'X'
	return write(func(w Writer) error {
		_, err := w.WriteAt(b[4:], 4)
		return err
	})
}

// Two editors of one file, of which one or both edit a copy, and of one that has another
// name: what both say that they have done is done.
func TestNoEditIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	top := t.TempDir()
	edit := func(path string, byCopy bool, off int) (err error) {
		werr := Walk(context.Background(), []string{path}, Options{Jobs: 1}, func(f *File) (error, bool) {
			return editByte(f, off, writer(f, byCopy)), true
		}, func(e error) { err = e })
		return errors.Join(err, werr)
	}
	// As autoPatchelf does: the tree is walked first.
	relink := func(dir string, off int) error {
		var roots Roots
		defer roots.Close()
		var found []Target
		err := Walk(context.Background(), []string{dir}, Options{Jobs: 1, Keep: &roots}, func(f *File) (Target, bool) { return f.Target(), true }, func(t Target) { found = append(found, t) })
		if err != nil {
			return err
		}
		var edited error
		err = Files(context.Background(), found[:1], Options{Jobs: 1}, func(f *File) (error, bool) {
			return editByte(f, off, func(apply func(Writer) error) error {
				return f.Replace(Replacing{Also: found[1:]}, func(w Copy) error { return apply(w) })
			}), true
		}, func(e error) { edited = e })
		return errors.Join(err, edited)
	}
	for name, both := range map[string][2]func(dir string) error{
		"two copies": {
			func(dir string) error { return edit(dir+"/a", true, 4) },
			func(dir string) error { return edit(dir+"/a", true, 5) },
		},
		"a copy, and in place": {
			func(dir string) error { return edit(dir+"/a", true, 4) },
			func(dir string) error { return edit(dir+"/a", false, 5) },
		},
		"a copy that gets all names, and another name in place": {
			func(dir string) error { return relink(dir, 4) },
			func(dir string) error { return edit(dir+"/b", false, 5) },
		},
		"a copy that gets all names, and a copy of another name": {
			func(dir string) error { return relink(dir, 4) },
			func(dir string) error { return edit(dir+"/b", true, 5) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			lost, done := 0, 0
			for i := range 100 {
				dir := filepath.Join(top, strings.ReplaceAll(name, " ", ""), string(rune('a'+i%26))+strings.Repeat("x", i/26))
				elfFile(t, filepath.Join(dir, "a"), strings.Repeat(".", 100))
				if strings.Contains(name, "names") {
					if err := os.Link(dir+"/a", dir+"/b"); err != nil {
						t.Fatal(err)
					}
				}
				var errs [2]error
				var wait sync.WaitGroup
				for n, do := range both {
					wait.Go(func() { errs[n] = do(dir) })
				}
				wait.Wait()
				for n, err := range errs {
					path := dir + "/a"
					if n == 1 && strings.Contains(name, "names") {
						path = dir + "/b"
					}
					b, rerr := os.ReadFile(path)
					switch {
					case rerr != nil:
						t.Fatal(rerr)
					case err == nil:
						done++
						if b[4+n] != 'X' {
							lost++
						}
					case !errors.Is(err, errChanged) || !strings.Contains(name, "names"): // the tree that was walked may have changed
						t.Errorf("editor %d: %v", n, err)
					}
				}
				if names, _ := filepath.Glob(dir + "/.*"); len(names) > 0 {
					t.Errorf("left: %q", names)
				}
			}
			if lost > 0 || done < 100 {
				t.Errorf("%d of %d edits that were done are lost", lost, done)
			}
		})
	}
}

// Who writes to a file that has privileges, and then sets its size and times back, is
// noticed: the privileges are those that the file has when its lock is held, and an edit does
// not give them back to what somebody else has written.
func TestPrivilegesAreNotGivenToWhatWasWrittenMeanwhile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("capabilities are root's to give")
	}
	caps := []byte{1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // VFS_CAP_REVISION_2, effective; CAP_SETUID
	for _, byCopy := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "file")
		elfFile(t, path, strings.Repeat(".", 100))
		past := time.Unix(1_000_000_000, 0)
		if err := errors.Join(os.Chmod(path, 0o755|os.ModeSetuid), unix.Setxattr(path, capabilityAttr, caps, 0), os.Chtimes(path, past, past)); err != nil {
			t.Skip(err)
		}
		time.Sleep(2 * tick) // nothing of what is read need be read again
		visits := 0
		Walk(context.Background(), []string{path}, Options{Jobs: 1}, func(f *File) (error, bool) {
			if visits++; visits == 1 {
				other, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err == nil {
					_, err = other.WriteAt([]byte("tampered"), 50)
					err = errors.Join(err, os.Chmod(path, 0o755), os.Chtimes(path, past, past), other.Close()) // root's write leaves the mode
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return writer(f, byCopy)(func(w Writer) error {
				_, err := w.WriteAt([]byte("edit"), 4)
				return err
			}), true
		}, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		b, _ := os.ReadFile(path)
		st, _ := os.Stat(path)
		n, err := unix.Getxattr(path, capabilityAttr, make([]byte, 64))
		if string(b[4:8]) != "edit" || string(b[50:58]) != "tampered" {
			t.Fatalf("copy %v: the file is %q", byCopy, b)
		}
		if visits != 2 || err == nil || st.Mode()&os.ModeSetuid != 0 {
			t.Errorf("copy %v: after %d visits the mode is %v, and there are %d bytes of capabilities (%v)", byCopy, visits, st.Mode(), n, err)
		}
	}
}

// A write by who does not ask for the lock, while a copy is made, does not get the copy the
// privileges that it has taken from the file.
func TestPrivilegesOfACopyThatWasTamperedWith(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	elfFile(t, path, strings.Repeat(".", 100))
	if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * tick)
	visits := 0
	Walk(context.Background(), []string{path}, Options{Jobs: 1}, func(f *File) (error, bool) {
		visits++
		return f.Replace(Replacing{}, func(w Copy) error {
			if visits > 1 {
				return nil
			}
			return errors.Join(os.WriteFile(path, []byte("\x7fELFtampered"), 0), os.Chmod(path, 0o755))
		}), true
	}, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	if st, err := os.Stat(path); err != nil || visits != 2 || st.Mode()&os.ModeSetuid != 0 || st.Size() != 12 {
		t.Errorf("after %d visits the mode is %v (%v)", visits, st.Mode(), err)
	}
}

// Who may write a file that has privileges, and does so while it is edited in place, would have them given to what he
// wrote: such a file is edited as a copy.
func TestPrivilegesOfAFileThatOthersMayWrite(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("capabilities are root's to give")
	}
	caps := []byte{1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // VFS_CAP_REVISION_2, effective; CAP_SETUID
	for name, c := range map[string]struct {
		owner int
		mode  os.FileMode
		caps  bool
	}{
		"another's, set-user-ID":         {1234, 0o755 | os.ModeSetuid, false},
		"another's, set-group-ID":        {1234, 0o755 | os.ModeSetgid, false},
		"another's, capabilities":        {1234, 0o755, true},
		"the group's, set-user-ID":       {0, 0o775 | os.ModeSetuid, false},
		"everybody's, with capabilities": {0, 0o757, true},
	} {
		for _, linked := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "file")
			elfFile(t, path, strings.Repeat(".", 100))
			err := errors.Join(os.Chown(path, c.owner, 4321), os.Chmod(path, c.mode))
			if c.caps {
				err = errors.Join(err, unix.Setxattr(path, capabilityAttr, caps, 0))
			}
			if err != nil {
				t.Skip(err)
			}
			if linked {
				if err := os.Link(path, path+".other"); err != nil {
					t.Fatal(err)
				}
			}
			other, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			time.Sleep(2 * tick)
			tampered := false
			Walk(context.Background(), []string{path}, Options{Jobs: 1}, func(f *File) (error, bool) {
				return f.Write(func(w Writer) error {
					_, err := w.WriteAt([]byte("edit"), 4)
					if !tampered {
						tampered = true
						_, failed := other.WriteAt([]byte("tampered"), 50)
						err = errors.Join(err, failed, os.Chmod(path, c.mode.Perm())) // root's write leaves the mode
					}
					return err
				}), true
			}, func(err error) {
				if (err != nil) != linked || linked && !errors.Is(err, errPrivileged) {
					t.Errorf("%s, linked %v: %v", name, linked, err)
				}
			})
			b, _ := os.ReadFile(path)
			st, _ := os.Stat(path)
			n, _ := unix.Getxattr(path, capabilityAttr, make([]byte, 64))
			if string(b[50:58]) == "tampered" && (n > 0 || st.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0) {
				t.Errorf("%s, linked %v: privileges (mode %v, %d bytes of capabilities) for what somebody else wrote", name, linked, st.Mode(), n)
			}
			if edited := string(b[4:8]) == "edit"; edited == linked || tampered == linked {
				t.Errorf("%s, linked %v: edited %v, tampered %v", name, linked, edited, tampered)
			}
		}
	}
}

// What another process writes to a script while it is read is read, or noticed before it is overwritten.
func TestWholeBesideAnotherWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	for range 20 {
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho before\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		visits := 0
		Walk(context.Background(), []string{path}, Options{Jobs: 1}, func(f *File) (error, bool) {
			visits++
			if visits == 1 {
				_ = os.WriteFile(path, []byte("#!/bin/sh\necho theirs\n"), 0o755)
			}
			b, err := f.Whole(100)
			if err != nil || string(b) != "#!/bin/sh\necho theirs\n" {
				t.Fatalf("%q, %v", b, err)
			}
			_ = os.WriteFile(path, []byte("#!/bin/sh\necho after.\n"), 0o755)
			err = f.Write(func(w Writer) error {
				_, err := w.WriteAt([]byte("#!/bin/sh\necho theirs, fixed\n"), 0)
				return err
			})
			if !errors.Is(err, errChanged) {
				t.Errorf("overwritten: %v", err)
			}
			return nil, false
		}, func(error) {})
		if b, err := os.ReadFile(path); err != nil || string(b) != "#!/bin/sh\necho after.\n" {
			t.Fatalf("%q, %v", b, err)
		}
	}
}
