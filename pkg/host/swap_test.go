package host

import (
	"debug/elf"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/loader/tinyelf"
	"cuda-runpath/pkg/sysroot"
)

// swapping lets two names change places until stop is called, and fails the test where that happened rarely.
func swapping(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	end, ended := make(chan bool), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-end:
				ended <- n
				return
			default:
				if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil {
					n++
				}
			}
		}
	}()
	return func() {
		close(end)
		if n := <-ended; n < 100 {
			t.Errorf("the test tests nothing: %d swaps", n)
		}
	}
}

// all returns the names and modes of everything in a directory.
func all(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		found[at] = info.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
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
// outside changes.
func TestNothingIsWrittenOutsideWhileADirectoryIsSwapped(t *testing.T) {
	m, err := MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir string // of the tree, that is swapped
		try func(h *Host) error
	}{
		"install": {"srv", func(h *Host) error {
			d := &Driver{machine: m, Machine: m.Name}
			_, err := h.Install(d, &Offer{Entries: []Entry{{Name: "libcuda.so.1", Target: "/x"}}}, "/srv/a/driver", false)
			return err
		}},
		"the prefix": {"srv/a/driver", func(h *Host) error {
			d := &Driver{machine: m, Machine: m.Name}
			_, err := h.Install(d, &Offer{Entries: []Entry{{Name: "libcuda.so.1", Target: "/x"}}}, "/srv/a/driver", false)
			return err
		}},
		"uninstall": {"srv", func(h *Host) error {
			_, err := h.UninstallAll("/srv/a/driver", false)
			return err
		}},
		"tmpfiles --write": {"etc", func(h *Host) error {
			_, err := WriteBootFile(h.Root.Dir, BootFile{"/etc/systemd/system/hostDriver.service", "text"})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree, outside := t.TempDir(), t.TempDir()
			h := &Host{Root: sysroot.Root{Dir: tree}}
			mkdirs(t, filepath.Join(tree, c.dir), filepath.Join(tree, "srv/a"), filepath.Join(outside, "a/driver"), filepath.Join(outside, "systemd/system"))
			// What an install of an earlier time would have left, for uninstall to take away.
			for _, at := range []string{filepath.Join(outside, "a/driver"), filepath.Join(tree, "srv/a/driver")} {
				mkdirs(t, filepath.Join(at, generation+"0"))
				if err := os.Symlink(generation+"0", filepath.Join(at, "lib")); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(outside, filepath.Join(tree, "link")); err != nil {
				t.Fatal(err)
			}
			if c.dir == "srv/a/driver" {
				relink(filepath.Join(tree, "link"), filepath.Join(outside, "a/driver"))
			}
			before := all(t, outside)
			stop := swapping(t, filepath.Join(tree, c.dir), filepath.Join(tree, "link"))
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				_ = c.try(h) // may fail, or not
			}
			stop()
			after := all(t, outside)
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

// A copy is of the file that was found, not of one that its directory leads to meanwhile.
func TestNothingIsCopiedFromOutside(t *testing.T) {
	tree, outside := t.TempDir(), t.TempDir()
	mkdirs(t, filepath.Join(tree, "usr/lib"), filepath.Join(tree, "cache"))
	inside := tinyelf.Object{}.With(elf.DT_SONAME, "libcuda.so.1").Bytes()
	secret := tinyelf.Object{}.With(elf.DT_SONAME, "libsecret.so").Bytes()
	for at, b := range map[string][]byte{filepath.Join(tree, "usr/lib/libcuda.so.1"): inside, filepath.Join(outside, "libcuda.so.1"): secret} {
		if err := os.WriteFile(at, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(tree, "link")); err != nil {
		t.Fatal(err)
	}
	h := &Host{Root: sysroot.Root{Dir: tree}}
	if _, err := h.Root.Open("/usr/lib/libcuda.so.1"); err != nil {
		t.Fatal(err)
	}
	defer swapping(t, filepath.Join(tree, "usr/lib"), filepath.Join(tree, "link"))()
	read := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		f, err := h.Root.Open("/usr/lib/libcuda.so.1")
		if err != nil {
			continue
		}
		im, err := imageOf(f)
		if err != nil {
			t.Fatal(err)
		}
		if soname, _ := im.Soname(); soname != "libcuda.so.1" {
			t.Fatalf("read %s from outside", soname)
		}
		f.Close()
		read++
	}
	if read == 0 {
		t.Error("the test tests nothing: the file was never read")
	}
}

// Whoever owns the directory in which one is made puts a link to a file of the caller's in its place: its mode stays.
func TestNoModeIsChangedByName(t *testing.T) {
	image, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	etc, link := filepath.Join(image, "etc"), filepath.Join(image, "link")
	defer swapping(t, etc, link)()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		for _, at := range []string{etc, link} {
			for os.RemoveAll(at) != nil { // it was swapped meanwhile
			}
		}
		if err := os.Symlink(secret, link); err != nil {
			t.Fatal(err)
		}
		_, _ = WriteBootFile(image, BootFile{"/etc/x", "text"})
		if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info.Mode(), err)
		}
	}
}
