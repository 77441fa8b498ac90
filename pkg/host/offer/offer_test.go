package offer

import (
	"debug/elf"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader/tinyelf"
	"cuda-runpath/pkg/sysroot"
)

// A name with a version leads to that version for ever, the others to whatever the host has under them.
func TestLinksOfVersionedNames(t *testing.T) {
	d := &host.Driver{Libraries: []host.Library{{Path: "/lib/libcuda.so.1", File: "/lib/libcuda.so.535.1", Links: []string{"libcuda.so.1", "libcuda.so.535.1", "libcuda.so"}}}}
	got := map[string]string{}
	for _, e := range Links(d).Entries {
		got[e.Name] = e.Target
	}
	want := map[string]string{"libcuda.so": "/lib/libcuda.so.1", "libcuda.so.1": "/lib/libcuda.so.1", "libcuda.so.535.1": "/lib/libcuda.so.535.1"}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func relink(at, target string) error {
	if err := os.Remove(at); err != nil {
		return err
	}
	return os.Symlink(target, at)
}

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestOffersAreCompared(t *testing.T) {
	in := openRoot(t, t.TempDir())
	dir := filepath.Join(in.Name(), "offer")
	o := &Offer{Entries: []Entry{{Name: "libcuda.so", Target: "libcuda.so.1"}, {Name: "libcuda.so.1", Target: "/usr/lib/libcuda.so.1"}, {Name: "host/libX11.so.6", Target: "/x"}}}
	if o.Same(in, "offer") {
		t.Error("it is not there yet")
	}
	key, err := o.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Make(in, "offer", key); err != nil || !o.Same(in, "offer") {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func() error{
		"a file more":   func() error { return os.WriteFile(filepath.Join(dir, "more"), nil, 0o644) },
		"one less":      func() error { return os.Remove(filepath.Join(dir, "libcuda.so")) },
		"one below":     func() error { return os.Remove(filepath.Join(dir, "host/libX11.so.6")) },
		"another link":  func() error { return relink(filepath.Join(dir, "libcuda.so"), "elsewhere") },
		"a file for it": func() error { return os.WriteFile(filepath.Join(dir, "host/more"), nil, 0o644) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if o.Same(in, "offer") {
			t.Errorf("%s was not seen", what)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := o.Make(in, "offer", key); err != nil || !o.Same(in, "offer") {
			t.Fatal(err)
		}
	}
	if len(key) != 32 {
		t.Errorf("%q", key)
	}
	o.Entries[0].Target = "other"
	if other, _ := o.Digest(); other == key {
		t.Error("another target, the same key")
	}
}

// An upgrade between the look at the driver and its copy must not be kept under the name of the old one.
func TestDriverChangedWhileItIsCopied(t *testing.T) {
	root := sysroot.Root{Dir: t.TempDir()}
	from := filepath.Join(root.Dir, driver.LibCUDA)
	library := tinyelf.Object{}.Needs("libm.so.6").With(elf.DT_RUNPATH, "/usr/lib/driver").Bytes()
	o := &Offer{Root: root, Entries: []Entry{{Name: driver.LibCUDA, Copy: from, RunPath: "$ORIGIN"}}}
	in := openRoot(t, t.TempDir())
	for i, upgraded := range []string{"", "upgraded"} {
		if err := os.WriteFile(from, library, 0o755); err != nil {
			t.Fatal(err)
		}
		key, err := o.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(from, append(library, upgraded...), 0o755); err != nil {
			t.Fatal(err)
		}
		name := string(rune('a' + i))
		if err := o.Make(in, name, key); (upgraded == "") != (err == nil) || err != nil && !errors.Is(err, ErrChanging) {
			t.Errorf("%q: %v", upgraded, err)
		}
		if upgraded == "" && !o.Same(in, name) {
			t.Error("what was made is not what was to be made")
		}
	}
}
