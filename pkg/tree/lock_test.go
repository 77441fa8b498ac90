package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// elfFile writes a file that begins with the magic.
func elfFile(t *testing.T, path, rest string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("\x7fELF"+rest), 0o755); err != nil {
		t.Fatal(err)
	}
}

// A directory on the way down that is swapped for a link during the walk does not lead
// out of the tree.
func TestDirectorySwappedForALink(t *testing.T) {
	top := t.TempDir()
	inside, outside := filepath.Join(top, "tree"), filepath.Join(top, "outside")
	elfFile(t, filepath.Join(inside, "b", "first"), "1")
	elfFile(t, filepath.Join(inside, "b", "c", "d", "second"), "inside")
	elfFile(t, filepath.Join(outside, "c", "d", "second"), "outside")
	var seen []string
	err := Walk(context.Background(), []string{inside}, Options{Jobs: 1}, func(f *File) (string, bool) {
		if f.Err != nil {
			return f.Path + ": " + f.Err.Error(), true
		}
		if filepath.Base(f.Path) == "first" {
			if err := errors.Join(os.Rename(filepath.Join(inside, "b"), filepath.Join(inside, "moved")), os.Symlink(outside, filepath.Join(inside, "b"))); err != nil {
				t.Error(err)
			}
		}
		return string(f.Head()), true
	}, func(s string) { seen = append(seen, s) })
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(seen, " "); strings.Contains(all, "outside") || !strings.Contains(all, "inside") {
		t.Errorf("visited %q", seen)
	}
}

// Two editors of one file: the second waits, and then works on what the first has left.
func TestWriteWaitsForAnotherEditor(t *testing.T) {
	for name, wait := range map[string]bool{"same size and time": true, "longer": false} {
		path := filepath.Join(t.TempDir(), "file")
		elfFile(t, path, "before")
		other, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		visits := 0
		planned, unlocked := make(chan bool, 10), make(chan bool)
		go func() {
			defer close(unlocked)
			<-planned
			text := "after!"
			if !wait {
				text = "after, and longer"
			}
			st, _ := other.Stat()
			if _, err := other.WriteAt([]byte(text), 4); err != nil {
				t.Error(err)
			}
			if wait { // as two edits in one tick of the clock leave it
				unix.Futimes(int(other.Fd()), []unix.Timeval{unix.NsecToTimeval(st.ModTime().UnixNano()), unix.NsecToTimeval(st.ModTime().UnixNano())})
				os.Chtimes(path, st.ModTime(), st.ModTime())
			}
			time.Sleep(30 * time.Millisecond)
			unix.Flock(int(other.Fd()), unix.LOCK_UN)
		}()
		err = Walk(context.Background(), []string{path}, Options{Jobs: 1}, func(f *File) (error, bool) {
			visits++
			b := make([]byte, 10)
			if n, _ := f.ReadAt(b, 0); n != 10 {
				t.Error("short")
			}
			planned <- true
			return f.Write(func(w Writer) error {
				_, err := w.WriteAt(append(b[4:10:10], '.'), 4)
				return err
			}), true
		}, func(err error) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		close(planned)
		<-unlocked
		if err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(path)
		if !strings.HasPrefix(string(got), "\x7fELFafter") || visits != 2 {
			t.Errorf("%s: after %d visits the file is %q", name, visits, got)
		}
	}
}

// What was read while another editor wrote says nothing about the file: the reader is told
// that it was changed, and visits it again. An error of a file that nobody has changed stays
// what it is, and so does one of writing.
func TestReadingBesideAnotherEditor(t *testing.T) {
	torn := errors.New("the headers contradict .dynamic")
	for name, c := range map[string]struct {
		change func(path string) error // beside the first visit
		write  bool                    // the visit fails while it writes
		visits int
	}{
		"changed in the tick that it was read in": {change: func(path string) error { return os.WriteFile(path, []byte("\x7fELFafter!"), 0o755) }, visits: 2},
		"changed later, and longer": {change: func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("\x7fELFafter and longer"), 0o755), os.Chtimes(path, time.Time{}, time.Now().Add(time.Minute)))
		}, visits: 2},
		"touched":      {change: func(path string) error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Minute)) }, visits: 2},
		"another mode": {change: func(path string) error { return os.Chmod(path, 0o700) }, visits: 2},
		"unchanged":    {change: func(path string) error { return nil }, visits: 1},
		"our write":    {change: func(path string) error { return nil }, write: true, visits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			elfFile(t, path, "before")
			visits := 0
			err := Walk(context.Background(), []string{path}, Options{Jobs: 1}, func(f *File) (error, bool) {
				if visits++; visits > 1 {
					return f.Blame(torn), true
				}
				if err := c.change(path); err != nil {
					t.Error(err)
				}
				if c.write {
					return f.Blame(f.Write(func(w Writer) error {
						_, err := w.WriteAt([]byte("half an edit"), 4)
						return errors.Join(err, torn)
					})), true
				}
				err := f.Blame(torn)
				if (err == torn) != (c.visits == 1) {
					t.Errorf("the first visit says %v", err)
				}
				return err, true
			}, func(err error) {
				if !errors.Is(err, torn) {
					t.Errorf("got %v", err)
				}
			})
			if err != nil || visits != c.visits {
				t.Errorf("%d visits, %v", visits, err)
			}
		})
	}
}

// Waiting for another editor ends with a signal.
func TestWaitingForAnotherEditorEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	elfFile(t, path, "before")
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	Walk(ctx, []string{path}, Options{Jobs: 1}, func(f *File) (error, bool) {
		cancel()
		return f.Write(func(w Writer) error { t.Error("written"); return nil }), true
	}, func(err error) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// A copy is edited and renamed over the file: mode, owner, times and attributes are
// the old one's, who has the old one open keeps it, and nothing else is left behind.
func TestWriteToACopy(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	elfFile(t, path, strings.Repeat("before ", 1000))
	if err := os.Chmod(path, 0o4751); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o751|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // else it is the caller's
		if err := errors.Join(os.Chown(path, 1234, 4321), os.Chmod(path, 0o751|os.ModeSetuid)); err != nil {
			t.Fatal(err)
		}
	}
	attrs := unix.Setxattr(path, "user.colour", []byte("blue"), 0) == nil
	past := time.Unix(1_000_000_000, 0)
	if err := errors.Join(os.Chtimes(path, past, past), os.Link(path, link)); err != nil {
		t.Fatal(err)
	}
	mapped, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	before, _ := mapped.Stat()
	edit := func(fail error) error {
		var got error
		Walk(context.Background(), []string{path}, Options{Jobs: 1}, func(f *File) (error, bool) {
			if n := f.OtherLinks(); n != 1 {
				t.Errorf("%d other links", n)
			}
			return f.Replace(Replacing{}, func(w Copy) error {
				_, err := w.WriteAt([]byte("after "), 4)
				return errors.Join(err, fail)
			}), true
		}, func(err error) { got = err })
		return got
	}
	failure := errors.New("failed")
	if err := edit(failure); !errors.Is(err, failure) {
		t.Error(err)
	}
	if st, err := os.Stat(path); err != nil || !os.SameFile(st, before) {
		t.Errorf("a failed edit replaced the file (%v)", err)
	}
	if err := edit(nil); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(after, before) || after.Mode() != before.Mode() || after.Size() != before.Size() {
		t.Errorf("mode %v became %v, size %d %d", before.Mode(), after.Mode(), before.Size(), after.Size())
	}
	owner := func(st os.FileInfo) [2]uint32 {
		s := st.Sys().(*syscall.Stat_t)
		return [2]uint32{s.Uid, s.Gid}
	}
	if owner(after) != owner(before) {
		t.Errorf("owner and group %v became %v", owner(before), owner(after))
	}
	if attrs {
		b := make([]byte, 10)
		if n, err := unix.Getxattr(path, "user.colour", b); err != nil || string(b[:n]) != "blue" {
			t.Errorf("the attribute is %q, %v", b[:max(n, 0)], err)
		}
	}
	now, _ := os.ReadFile(path)
	old, _ := os.ReadFile(link)
	if !strings.HasPrefix(string(now), "\x7fELFafter ") || !strings.HasPrefix(string(old), "\x7fELFbefore") || len(now) != len(old) {
		t.Errorf("the file begins %.12q, the link %.12q", now, old)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 2 {
		t.Errorf("left: %q", names)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, ".*")); len(names) != 0 {
		t.Errorf("left: %q", names)
	}
}

// While one edit writes, no other begins: an editor's lock keeps others out, and not only
// from those that lock as one, as a reader's would.
func TestTwoEditsOfAFileDoNotOverlap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	elfFile(t, path, "before")
	for _, byCopy := range []bool{false, true} {
		files := make([]*File, 2)
		for i := range files {
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			files[i] = f
		}
		var done atomic.Bool
		second := make(chan error)
		first := writer(files[0], byCopy)(func(Writer) error {
			go func() {
				second <- writer(files[1], byCopy)(func(Writer) error {
					if !done.Load() {
						t.Error("the second edit begins before the first has ended")
					}
					return nil
				})
			}()
			time.Sleep(50 * time.Millisecond) // so that the second could come in between
			done.Store(true)
			return nil
		})
		if err := errors.Join(first, <-second); err != nil && !errors.Is(err, errChanged) { // the copy is another file
			t.Error(err)
		}
	}
}

// A disk that fails is no other editor: the error is what is said, also of a file that was written a moment ago, of
// which all that was read is read once more.
func TestReadsThatFailAreNoChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	elfFile(t, path, "before")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.racy = true
	if _, err := f.ReadAt(make([]byte, 4), 0); err != nil {
		t.Fatal(err)
	}
	unreadable, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	readable := f.fd
	f.fd = unreadable
	if got := f.Blame(unix.EIO); got != unix.EIO {
		t.Errorf("got %v, want %v", got, unix.EIO)
	}
	f.fd = readable
	if err := unix.Close(unreadable); err != nil {
		t.Error(err)
	}
}

// A file that another editor has replaced is not the one that has the name, although all that it was it still is: where
// the two are in one tick of the clock, its times say nothing. It is read again, in its place.
func TestAReplacedFileIsNotEdited(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "in", "file")
		elfFile(t, path, "before")
		elfFile(t, filepath.Join(dir, "in", "new"), "theirs")
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		// Who opens the file to write it has done so before the other editor replaces it.
		hold, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		if err := unix.Flock(int(hold.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			apply := func(w Writer) error { _, err := w.WriteAt([]byte("lost"), 4); return err }
			if inPlace {
				done <- f.Write(apply)
			} else {
				done <- f.Replace(Replacing{}, func(w Copy) error { return apply(w) })
			}
		}()
		time.Sleep(50 * time.Millisecond) // it waits for the lock
		// Another directory gets the place of the file's: so the times of the file stay.
		err = errors.Join(os.Rename(dir+"/in", dir+"/out"), os.Mkdir(dir+"/in", 0o755), os.Rename(dir+"/out/new", path),
			unix.Flock(int(hold.Fd()), unix.LOCK_UN))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, errChanged) || !f.Changed() {
			t.Errorf("in place %v: %v", inPlace, err)
		}
		for path, want := range map[string]string{path: "\x7fELFtheirs", dir + "/out/file": "\x7fELFbefore"} {
			if b, err := os.ReadFile(path); string(b) != want || err != nil {
				t.Errorf("in place %v: %s is %q, %v", inPlace, path, b, err)
			}
		}
	}
}
