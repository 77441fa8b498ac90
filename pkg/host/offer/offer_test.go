package offer

import (
	"debug/elf"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
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

func TestOffersAreCompared(t *testing.T) {
	in := hosttest.Open(t, t.TempDir())
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
		"another link":  func() error { return hosttest.Relink(filepath.Join(dir, "libcuda.so"), "elsewhere") },
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
	in := hosttest.Open(t, t.TempDir())
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

// Libraries that load others are copies that search their own directory, and host/ where they need what is the host's;
// the rest are links.
func TestPrivate(t *testing.T) {
	root := t.TempDir()
	constant := tinyelf.Object{Data: "\x00libnvidia-ptxjitcompiler.so.1\x00"}
	for name, o := range map[string]tinyelf.Object{
		"usr/lib64/libcuda.so.535.1.2":                  constant.With(elf.DT_SONAME, driver.LibCUDA),
		"usr/lib64/libnvidia-ptxjitcompiler.so.535.1.2": tinyelf.Object{}.With(elf.DT_SONAME, "libnvidia-ptxjitcompiler.so.1"),
		"usr/lib64/libGLX_nvidia.so.535.1.2":            tinyelf.Object{}.With(elf.DT_SONAME, "libGLX_nvidia.so.0").Needs("libX11.so.6", "libcuda.so.1", "libmissing.so.1"),
		"usr/lib64/libEGL_nvidia.so.535.1.2":            tinyelf.Object{}.With(elf.DT_SONAME, "libEGL_nvidia.so.0").Needs("libmissing.so.1"),
		"usr/lib64/libX11.so.6":                         tinyelf.Object{}.With(elf.DT_SONAME, "libX11.so.6").Needs("libxcb.so.1"),
		"opt/libxcb.so.1":                               tinyelf.Object{}.With(elf.DT_SONAME, "libxcb.so.1"),
	} {
		at := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, o.Bytes(), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	// Out of the root for this machine's own links, and inside for the root's.
	if err := os.Symlink("/../opt/libxcb.so.1", filepath.Join(root, "usr/lib64/libxcb.so.1")); err != nil {
		t.Fatal(err)
	}
	h := &host.Host{Root: sysroot.Root{Dir: root}}
	m, err := host.MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	d, err := h.Find(m)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	o := Private(h, d)
	for _, e := range o.Entries {
		got[e.Name] = strings.TrimPrefix(e.Target+e.Copy, root) + " " + e.RunPath
	}
	want := map[string]string{
		"libcuda.so": "libcuda.so.1 ", "libcuda.so.1": "/usr/lib64/libcuda.so.535.1.2 $ORIGIN", "libcuda.so.535.1.2": "libcuda.so.1 ",
		"libnvidia-ptxjitcompiler.so": "libnvidia-ptxjitcompiler.so.1 ", "libnvidia-ptxjitcompiler.so.1": "/usr/lib64/libnvidia-ptxjitcompiler.so.535.1.2 ", "libnvidia-ptxjitcompiler.so.535.1.2": "libnvidia-ptxjitcompiler.so.1 ",
		"libGLX_nvidia.so.0": "/usr/lib64/libGLX_nvidia.so.535.1.2 $ORIGIN:$ORIGIN/host", "libGLX_nvidia.so.535.1.2": "libGLX_nvidia.so.0 ",
		"libEGL_nvidia.so.0": "/usr/lib64/libEGL_nvidia.so.535.1.2 ", "libEGL_nvidia.so.535.1.2": "libEGL_nvidia.so.0 ",
		"share/glvnd/egl_vendor.d/10_nvidia.json": " ",
		"host/libX11.so.6":                        "/usr/lib64/libX11.so.6 $ORIGIN", "host/libxcb.so.1": "/opt/libxcb.so.1 ",
	}
	for name := range got {
		if _, ok := want[name]; !ok && strings.HasSuffix(name, ".so") {
			want[name] = got[name] // for the linker, which the table of libraries decides
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if notes := strings.Join(o.Notes, ";"); notes != "libmissing.so.1, which libEGL_nvidia.so.0 and libGLX_nvidia.so.0 need, is not on this host" {
		t.Error(notes)
	}
	in := hosttest.Open(t, t.TempDir())
	key, err := o.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Make(in, key, key); err != nil || !o.Same(in, key) {
		t.Fatal(err)
	}
	if b, err := in.ReadFile(key + "/libcuda.so.1"); err != nil || !strings.Contains(string(b), "$ORIGIN\x00") {
		t.Errorf("the copy has no run path of its own: %v", err)
	}
	for what, spoil := range map[string]func(string) error{
		"a copy cut off":        func(at string) error { return errors.Join(os.Chmod(at, 0o755), os.Truncate(at, 200)) },
		"a copy that is a link": func(at string) error { return hosttest.Relink(at, "/etc/passwd") },
	} {
		at := filepath.Join(in.Name(), key, "libcuda.so.1")
		whole, _ := os.ReadFile(at)
		if err := spoil(at); err != nil || o.Same(in, key) {
			t.Errorf("%s was not seen, %v", what, err)
		}
		if err := errors.Join(os.Remove(at), os.WriteFile(at, whole, 0o755)); err != nil || !o.Same(in, key) {
			t.Fatal(err)
		}
	}
}

func TestOnlyDriverLinks(t *testing.T) {
	in := hosttest.Open(t, t.TempDir())
	dir := filepath.Join(in.Name(), "lib")
	if _, err := OnlyDriverLinks(in, "lib"); err == nil {
		t.Error("there is none")
	}
	for _, step := range []struct {
		do   func() error
		want bool
	}{
		{func() error { return os.Mkdir(dir, 0o755) }, true},
		{func() error { return os.Symlink("/x", filepath.Join(dir, "libcuda.so.1")) }, true},
		{func() error { return os.Symlink("/x", filepath.Join(dir, "libX11.so.6")) }, false},
		{func() error {
			return relinkFile(filepath.Join(dir, "libX11.so.6"), filepath.Join(dir, "libnvidia-ml.so.1"))
		}, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got, err := OnlyDriverLinks(in, "lib"); got != step.want || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// relinkFile takes a link away and makes a file elsewhere.
func relinkFile(link, file string) error {
	return errors.Join(os.Remove(link), os.WriteFile(file, nil, 0o644))
}
