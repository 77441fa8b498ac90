package install

import (
	"debug/elf"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/host/offer"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
	"golang.org/x/sys/unix"
)

// whileSwapping lets two names change places while it tries something again and again: for a time, and until it was
// done once and the names were swapped once, however much else the machine has to do. Where that never comes, the test
// fails.
func whileSwapping(t *testing.T, a, b string, lasts time.Duration, try func() (done bool)) {
	t.Helper()
	var swaps atomic.Int64
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil {
					swaps.Add(1)
				}
			}
		}
	}()
	done := 0
	few := func() bool { return done == 0 || swaps.Load() == 0 }
	for began := time.Now(); !t.Failed() && (time.Since(began) < lasts || few() && time.Since(began) < time.Minute); {
		if try() {
			done++
		}
	}
	close(end)
	if <-ended; few() && !t.Failed() {
		t.Errorf("the test tests nothing: done %d times, %d swaps", done, swaps.Load())
	}
}

func mkdirs(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// The owner of a tree exchanges a directory of it for a link that leads out while something is written below it: nothing
// outside changes. Nor where it is the tree's own directory, once it was opened.
func TestNothingIsWrittenOutsideWhileADirectoryIsSwapped(t *testing.T) {
	m, err := host.MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	// A driver for which files are written too.
	from := t.TempDir()
	for _, name := range []string{"libcuda.so.1", "libEGL_nvidia.so.0"} {
		if err := os.WriteFile(filepath.Join(from, name), tinyelf.Object{}.With(elf.DT_SONAME, name).Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write := func(h *host.Host) error {
		// Each its own: a Driver is for one goroutine.
		d, err := (&host.Host{Root: sysroot.Root{Dir: from}, From: []string{"/"}}).Find(m)
		if err != nil || len(d.Vendors) != 1 {
			t.Errorf("%+v, %v", d, err)
			return err
		}
		_, err = Make(h, d, offer.Links(d), Site{Prefix: "/srv/a/driver"}, false)
		return err
	}
	remove := func(h *host.Host) error {
		_, err := Remove(h, Site{Prefix: "/srv/a/driver"}, false)
		return err
	}
	boot := func(h *host.Host) error {
		_, err := made.Put(h, made.File{Path: "/etc/systemd/system/hostDriver.service", Text: "text"})
		return err
	}
	for name, c := range map[string]struct {
		dir string // of the tree, that is swapped; "." for the tree
		out string // what its link leads to, outside
		try func(h *host.Host) error
	}{
		"install": {"srv", "srv", write}, "the prefix": {"srv/a/driver", "srv/a/driver", write}, "uninstall": {"srv", "srv", remove}, "tmpfiles --write": {"etc", "etc", boot},
		"install, the tree": {".", ".", write}, "uninstall, the tree": {".", ".", remove}, "tmpfiles --write, the tree": {".", ".", boot},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, outside := t.TempDir(), t.TempDir()
			tree := filepath.Join(dir, "tree")
			// What an install of an earlier time would have left, for uninstall to take away.
			for _, at := range []string{outside, tree} {
				mkdirs(t, filepath.Join(at, "srv/a/driver", generation+"0"), filepath.Join(at, "etc/systemd/system"))
				if err := os.Symlink(generation+"0", filepath.Join(at, "srv/a/driver/lib")); err != nil {
					t.Fatal(err)
				}
			}
			link := filepath.Join(dir, "link")
			if err := os.Symlink(filepath.Join(outside, c.out), link); err != nil {
				t.Fatal(err)
			}
			root, err := sysroot.Open(tree)
			if err != nil {
				t.Fatal(err)
			}
			h := &host.Host{Root: root}
			before := hosttest.Modes(t, outside)
			whileSwapping(t, filepath.Join(tree, c.dir), link, time.Second, func() bool { return c.try(h) == nil }) // it may fail, or not
			after := hosttest.Modes(t, outside)
			for at, mode := range before {
				if after[at] != mode {
					t.Errorf("%s was %v and is %v", at, mode, after[at])
				}
				delete(after, at)
			}
			for at := range after {
				t.Errorf("%s was made", at)
			}
		})
	}
}

// Whoever owns the directory in which one is made puts a link to a file of the caller's in its place: its mode stays.
func TestNoModeIsChangedByName(t *testing.T) {
	image, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	etc, link := filepath.Join(image, "etc"), filepath.Join(image, "link")
	whileSwapping(t, etc, link, 2*time.Second, func() bool {
		for _, at := range []string{etc, link} {
			for os.RemoveAll(at) != nil { // it was swapped meanwhile
			}
		}
		if err := os.Symlink(secret, link); err != nil {
			t.Error(err)
		}
		_, err := made.Put(&host.Host{Root: sysroot.Root{Dir: image}}, made.File{Path: "/etc/x", Text: "text"})
		if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		return err == nil
	})
}
