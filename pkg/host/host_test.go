package host

import (
	"debug/elf"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader/tinyelf"
	"cuda-runpath/pkg/sysroot"
)

func TestVersions(t *testing.T) {
	for name, want := range map[string]string{
		"libcuda.so.535.261.03": "535.261.03", "libcuda.so.1": "", "libcuda.so.1.1": "", "libcuda.so": "",
		"/usr/lib/libnvidia-glcore.so.470.57": "470.57", "libX11.so.6.4.0": "", "libcudart.so.12.4.127": "",
		"libcuda.so.1.535.261": "", "libcuda.so.580.159.04.old": "",
	} {
		if got := versionIn(name); got != want {
			t.Errorf("versionIn(%q) = %q, want %q", name, got, want)
		}
	}
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"535.261.03", "535.54.03", true}, {"535.54.03", "535.261.03", false}, {"580.95", "535.261.03", true},
		{"535.261.03", "535.261.03", false}, {"535.261.3", "535.261.03", false}, {"12.10", "12.9", true},
		{"13", "12.8", true}, {"12.2.1", "12.2", true}, {"", "1", false},
	} {
		if got := newerVersion(test.a, test.b); got != test.want {
			t.Errorf("newerVersion(%q, %q) = %v", test.a, test.b, got)
		}
	}
}

func host(t *testing.T, files map[string]string) *Host {
	t.Helper()
	h := &Host{Root: sysroot.Root{Dir: t.TempDir()}}
	for name, data := range files {
		at := filepath.Join(h.Root.Dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// The first lines that the proprietary and the open kernel module write.
func TestKernelVersion(t *testing.T) {
	for _, test := range []struct {
		proc, sys string
		want      Kernel
	}{
		{"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jun  3 11:17:40 UTC 2025\nGCC version:  gcc version 12.2.0\n", "535.261.03\n",
			Kernel{"535.261.03", procVersion, ""}},
		{"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U16)  Thu 1\n", "",
			Kernel{"580.159.04", procVersion, ""}},
		{"NVRM version: NVIDIA UNIX aarch64 Kernel Module  470.57  Thu\n", "535.1\n", Kernel{"470.57", procVersion, "535.1"}},
		{"", "550.54.14\n", Kernel{"550.54.14", sysVersion, ""}},
		{"nothing of the kind\n", "\x00\xff", Kernel{}},
		{"", "", Kernel{}},
	} {
		files := map[string]string{}
		if test.proc != "" {
			files[procVersion] = test.proc
		}
		if test.sys != "" {
			files[sysVersion] = test.sys
		}
		if got := host(t, files).kernelVersion(); got != test.want {
			t.Errorf("%q, %q: %+v, want %+v", test.proc, test.sys, got, test.want)
		}
	}
}

// The text may be anywhere, across the pieces in which the file is read too.
func TestCUDAVersionInLibrary(t *testing.T) {
	const text = "Cuda compilation tools, release 12.2, V12.2.149"
	for _, at := range []int{0, 100, 1<<20 - 20, 1<<20 + 128 - 20, 1<<20 + 100, 3<<20 + 7} {
		b := strings.Repeat("\x00", at) + text + "\x00Cuda compilation tools, release %d.%d, V%s"
		if got := cudaInLibrary(host(t, map[string]string{"lib": b}).Root, "/lib"); got != "12.2" {
			t.Errorf("at %d: %q", at, got)
		}
	}
	for _, b := range []string{"", "Cuda compilation tools, release ", "x"} {
		if got := cudaInLibrary(host(t, map[string]string{"lib": b}).Root, "/lib"); got != "" {
			t.Errorf("%q: %q", b, got)
		}
	}
	for version, want := range map[string]string{"535.261.03": "12.2", "580.95.05": "13.0", "1.2": "", "": ""} {
		if got := cudaOfBranch(version); got != want {
			t.Errorf("cudaOfBranch(%q) = %q", version, got)
		}
	}
}

func TestLibraryPathHasNoEmptyEntry(t *testing.T) {
	for _, test := range []struct{ env, want []string }{
		{[]string{"A=b"}, []string{"A=b", "LD_LIBRARY_PATH=/x:/y"}},
		{[]string{"LD_LIBRARY_PATH=", "A=b"}, []string{"A=b", "LD_LIBRARY_PATH=/x:/y"}},
		{[]string{"LD_LIBRARY_PATH=/old:/older", "LD_LIBRARY_PATHS=z"}, []string{"LD_LIBRARY_PATHS=z", "LD_LIBRARY_PATH=/x:/y:/old:/older"}},
	} {
		if got := withLibraryPath(test.env, []string{"/x", "/y"}); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.env, got, test.want)
		}
	}
}

func TestDriverLinksOfMachines(t *testing.T) {
	for name, want := range map[string]string{"x86_64": driver.Link, "i686": driver.Link32, "arm64": driver.Link} {
		m, err := MachineNamed(name)
		if got := m.link(DefaultPrefix); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	m, _ := MachineNamed("i386")
	if got := m.link("/opt/driver"); got != "/opt/driver-32/lib" {
		t.Error(got)
	}
	if _, err := MachineNamed("vax"); err == nil {
		t.Error("no driver for that")
	}
}

// Of several drivers in Ubuntu's old layout, the newest: numbers compare as numbers.
func TestNewestDirectoryFirst(t *testing.T) {
	h := host(t, map[string]string{"usr/lib/nvidia-304/x": "", "usr/lib/nvidia-1080/x": "", "usr/lib/nvidia-390/x": ""})
	m, _ := MachineNamed("x86_64")
	_, places := h.places(m)
	var got []string
	for _, p := range places {
		if strings.Contains(p.dir, "nvidia-") {
			got = append(got, filepath.Base(p.dir))
		}
	}
	if want := []string{"nvidia-1080", "nvidia-390", "nvidia-304"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The units: at boot, and when ldconfig has written the loader's cache again.
func TestBootFiles(t *testing.T) {
	h := host(t, nil)
	files := h.BootFiles(nil, "/opt/gpu driver", "/usr/bin/hostDriver", true, "")
	if len(files) != 2 || !strings.Contains(files[0].Text, "\nExecStart=/usr/bin/hostDriver install --prefix /opt/gpu\\x20driver --copy\n") ||
		!strings.Contains(files[1].Text, "\nPathChanged=/etc/ld.so.cache\n") {
		t.Errorf("%+v", files)
	}
	if files := h.BootFiles(nil, DefaultPrefix, "/x", false, ""); len(files) != 3 || !strings.Contains(files[1].Text, "\nExecStart=/x install\n") {
		t.Errorf("%+v", files)
	}
}

func TestBootFilesQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/run/opengl-driver": "/run/opengl-driver", "/a b": `/a\x20b`, "/100%": "/100%%", `/a"b`: `/a\x22b`, "/a\nL+ x": `/a\x0aL+\x20x`, `/a\b`: `/a\x5cb`,
	} {
		if got := specifier(in); got != want {
			t.Errorf("specifier(%q) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"/usr/bin/x": "/usr/bin/x", "/a b$": `/a\x20b$$`, "/%h": "/%%h", "/a\nExecStart=x": `/a\x0aExecStart=x`} {
		if got := unitWord(in); got != want {
			t.Errorf("unitWord(%q) = %s, want %s", in, got, want)
		}
	}
}

// A cache whose contents no longer match its state, or that others can write, is not used.
func TestCacheRefusesWhatOthersCanWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // root takes none that others cannot enter
		t.Fatal(err)
	}
	if _, err := OpenCache(filepath.Join(dir, "new", "deep")); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCache(dir); err == nil {
		t.Error("a directory for all was taken")
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	// One's own link serves; what counts from then on is where it leads.
	if c, err := OpenCache(link); err != nil || c.Dir != dir {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if c, err := OpenCache(""); err != nil || c.Dir != filepath.Join(dir, "hostDriver") {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if os.Geteuid() != 0 {
		if _, err := OpenCache(""); err == nil || !strings.Contains(err.Error(), "--cache") {
			t.Error(err)
		}
	}
}

func TestGenerationsAreDirectlyInThePrefix(t *testing.T) {
	for name, want := range map[string]bool{".hostDriver-0a1b": true, ".hostDriver-0a1b/../x": false, "/run/.hostDriver-0a1b": false, "lib": false} {
		if got := isGeneration(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Directories of older drivers live for a month after their last use, and until the machine is started again; what a
// killed process left, for an hour.
func TestUnusedDirectoriesAreRemoved(t *testing.T) {
	c := &Cache{Dir: t.TempDir()}
	defer func(f func() time.Time) { booted = f }(booted)
	booted = func() time.Time { return time.Now().Add(-35 * 24 * time.Hour) }
	name := strings.Repeat("0123456789abcdef", 2)
	ages := map[string]time.Duration{
		name: 40 * 24 * time.Hour, "1" + name[1:]: 40 * 24 * time.Hour, "2" + name[1:]: 20 * 24 * time.Hour,
		"3" + name[1:]: 34 * 24 * time.Hour, "4" + name[1:]: 35*24*time.Hour + 12*time.Hour, // may be in use: the machine has run since
		".new-1": 2 * time.Hour, ".new-2": time.Minute, stageName: 40 * 24 * time.Hour, "mine": 40 * 24 * time.Hour,
	}
	for name, age := range ages {
		at, then := filepath.Join(c.Dir, name), time.Now().Add(-age)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at, then, then); err != nil {
			t.Fatal(err)
		}
	}
	c.removeUnused([]Private{{Dir: filepath.Join(c.Dir, name)}})
	for old := range ages {
		_, err := os.Lstat(filepath.Join(c.Dir, old))
		if gone := err != nil; gone != (old == ".new-1" || old == "1"+name[1:]) {
			t.Errorf("%s: gone: %v", old, gone)
		}
	}
}

// A name with a version leads to that version for ever, the others to whatever the host has under them.
func TestLinksOfVersionedNames(t *testing.T) {
	d := &Driver{Libraries: []Library{{Path: "/lib/libcuda.so.1", File: "/lib/libcuda.so.535.1", Links: []string{"libcuda.so.1", "libcuda.so.535.1", "libcuda.so"}}}}
	got := map[string]string{}
	for _, e := range d.Links().Entries {
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
	if o.same(in, "offer") {
		t.Error("it is not there yet")
	}
	key, err := o.digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.make(in, "offer", key); err != nil || !o.same(in, "offer") {
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
		if o.same(in, "offer") {
			t.Errorf("%s was not seen", what)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := o.make(in, "offer", key); err != nil || !o.same(in, "offer") {
			t.Fatal(err)
		}
	}
	if len(key) != 32 {
		t.Errorf("%q", key)
	}
	o.Entries[0].Target = "other"
	if other, _ := o.digest(); other == key {
		t.Error("another target, the same key")
	}
}

// An upgrade between the look at the driver and its copy must not be kept under the
// name of the old one.
func TestDriverChangedWhileItIsCopied(t *testing.T) {
	dir := t.TempDir()
	library := tinyelf.Object{}.Needs("libm.so.6").With(elf.DT_RUNPATH, "/usr/lib/driver").Bytes()
	from := filepath.Join(dir, "libcuda.so.1")
	if err := os.WriteFile(from, library, 0o755); err != nil {
		t.Fatal(err)
	}
	o := &Offer{Entries: []Entry{{Name: "libcuda.so.1", Copy: from}}, root: sysroot.Root{Dir: dir}}
	defer func() { beforeCopy = func() {} }()
	beforeCopy = func() {
		if err := os.WriteFile(from, append(library, "upgraded"...), 0o755); err != nil {
			t.Error(err)
		}
	}
	h := &Host{Root: sysroot.Root{Dir: dir}}
	m, _ := MachineNamed("x86_64")
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Install(&Driver{machine: m}, o, DefaultPrefix, false); !errors.Is(err, ErrChanging) {
		t.Errorf("Install: %v", err)
	}
	left, _ := os.ReadDir(filepath.Join(dir, DefaultPrefix))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// getconf asks the C library itself.
func TestVersionOfTheHostsGLIBC(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("getconf", "GNU_LIBC_VERSION").Output()
	want, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "glibc ")
	if err != nil || !ok {
		t.Skip("no glibc here")
	}
	h := &Host{}
	m, err := MachineOf(h.Root)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.hostGLIBC(m); got != want {
		t.Errorf("the host's glibc is %q, want %q", got, want)
	}
	program, err := exec.LookPath("getconf")
	if err != nil {
		t.Fatal(err)
	}
	if got := h.needsGLIBC(program); got == "" || newerVersion(got, want) {
		t.Errorf("%s needs glibc %q, of %s", program, got, want)
	}
	if got := h.needsGLIBC("/etc/passwd"); got != "" {
		t.Errorf("a text needs glibc %q", got)
	}
}
