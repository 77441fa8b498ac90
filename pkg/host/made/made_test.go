package made

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
)

func system(t *testing.T) *host.Host {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // goroutines of an earlier test may have left no umask
		t.Fatal(err)
	}
	return &host.Host{Root: sysroot.Root{Dir: dir}}
}

func names(t *testing.T, h *host.Host) (all []string) {
	t.Helper()
	err := filepath.WalkDir(h.Root.Dir, func(at string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, strings.TrimPrefix(at, h.Root.Dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What was put there is on record and goes again, but for what somebody changed; the record goes with the last.
func TestPutAndTakeBack(t *testing.T) {
	h := system(t)
	files := []File{{Path: "/etc/a", Text: "one\n"}, {Path: "/etc/b/c", Text: "two\n", Mode: 0o755}, {Path: "/etc/l", Link: "/etc/a"}, {Path: "/usr/p", From: "/x", Program: []byte("bytes")}}
	for i, want := range []int{4, 0} {
		if changed, err := Put(h, files...); err != nil || len(changed) != want {
			t.Errorf("%d: %v, %v", i, changed, err)
		}
	}
	// A newer text: what is there is then known by both.
	files[0].Text = "newer\n"
	if changed, err := Put(h, files...); err != nil || len(changed) != 1 {
		t.Errorf("%v, %v", changed, err)
	}
	if err := os.WriteFile(filepath.Join(h.Root.Dir, "etc/b/c"), []byte("by hand\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	things, err := Read(h)
	// With the directories that were made for them.
	if err != nil || len(things) != 5+3 || !slices.Contains(things, Thing{Kind: Directory, Path: "/etc/b"}) {
		t.Fatalf("%v, %v", things, err)
	}
	before := names(t, h)
	for _, dryRun := range []bool{true, false} {
		done := TakeBack(h, things, dryRun)
		removed, stays := 0, 0
		for _, o := range done {
			if o.Action == "removed" {
				removed++
			} else if stays++; o.Path != "/etc/b/c" || o.Why != "was changed since hostDriver made it" {
				t.Errorf("%+v", o)
			}
		}
		if removed != 3 || stays != 1 {
			t.Errorf("%+v", done)
		}
		if dryRun && !slices.Equal(before, names(t, h)) {
			t.Error("a dry run changed something")
		}
	}
	if left := names(t, h); !slices.Equal(left, []string{"/etc/b/c", "/var/lib/hostDriver/made.json"}) {
		t.Error(left)
	}
	if err := Forget(h, things...); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(h.Root.Dir, "var/lib/hostDriver")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// What is somebody else's stays, and then nothing at all is made.
func TestPutLeavesOthersAlone(t *testing.T) {
	for name, c := range map[string]struct {
		there func(at string) error
		file  File
	}{
		"a link in a file's place":    {func(at string) error { return os.Symlink("/dev/null", at) }, File{Path: "/etc/x", Text: "text"}},
		"another link":                {func(at string) error { return os.Symlink("/other", at) }, File{Path: "/etc/x", Link: "/mine"}},
		"a file in a link's place":    {func(at string) error { return os.WriteFile(at, nil, 0o644) }, File{Path: "/etc/x", Link: "/mine"}},
		"a program of the same name":  {func(at string) error { return os.WriteFile(at, []byte("theirs"), 0o755) }, File{Path: "/etc/x", From: "/p", Program: []byte("ours")}},
		"a directory in its place":    {func(at string) error { return os.Mkdir(at, 0o755) }, File{Path: "/etc/x", Link: "/mine"}},
		"a link that leads nowhere":   {func(at string) error { return os.Symlink("/nowhere", at) }, File{Path: "/etc/x/y", Text: "text"}},
		"a FIFO, which nobody reads":  {fifo, File{Path: "/etc/x", Text: "text"}},
		"a FIFO in a program's place": {fifo, File{Path: "/etc/x", From: "/p", Program: []byte("ours")}},
	} {
		h := system(t)
		at := filepath.Join(h.Root.Dir, "etc/x")
		if err := errors.Join(os.Mkdir(filepath.Dir(at), 0o755), c.there(at)); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(at)
		if changed, err := Put(h, c.file); err == nil {
			t.Errorf("%s: %v", name, changed)
		}
		if now, err := os.Lstat(at); err != nil || !os.SameFile(before, now) {
			t.Errorf("%s: it is another: %v", name, err)
		}
	}
}

// Many at once, one of which takes back what it made: no record is lost.
func TestRecordOfManyAtOnce(t *testing.T) {
	h := system(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			own := &host.Host{Root: h.Root} // each its own
			thing := Thing{Kind: Regular, Path: "/" + strings.Repeat("x", i+1), Sum: "0"}
			if err := Note(own, thing); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := Forget(own, thing); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if things, err := Read(h); err != nil || len(things) != 4 {
		t.Errorf("%v, %v", things, err)
	}
}

// A record that others could have written says nothing.
func TestRecordOfOthersIsNotBelieved(t *testing.T) {
	h := system(t)
	if err := Note(h, Thing{Kind: Regular, Path: "/etc/passwd", Sum: "0"}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"anyone can write it": func() error { return os.Chmod(filepath.Join(h.Root.Dir, RecordPath), 0o666) },
		"anyone can write its directory": func() error {
			return errors.Join(os.Chmod(filepath.Join(h.Root.Dir, RecordPath), 0o644), os.Chmod(filepath.Join(h.Root.Dir, host.StateDir), 0o777))
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if things, err := Read(&host.Host{Root: h.Root}); err == nil || !strings.Contains(err.Error(), "anyone can write") {
			t.Errorf("%s: %v, %v", name, things, err)
		}
	}
}

func fifo(at string) error { return unix.Mkfifo(at, 0o644) }

// The record's directory goes with the last of it while others are about to write there.
func TestRecordWhoseDirectoryGoes(t *testing.T) {
	h := system(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			thing := Thing{Kind: Regular, Path: "/" + strings.Repeat("x", i+1), Sum: "0"}
			for range 100 {
				own := &host.Host{Root: h.Root}
				if err := errors.Join(Note(own, thing), Forget(own, thing)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	if _, err := os.Lstat(filepath.Join(h.Root.Dir, host.StateDir)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
