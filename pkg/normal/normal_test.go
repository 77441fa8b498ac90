package normal

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/tests/tinyelf"
)

func TestDirectoryHoldsWhatTheLoaderWouldTake(t *testing.T) {
	dir := t.TempDir()
	for name, head := range map[string]string{
		"x86-64.so": "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x03\x00\x3e\x00" + strings.Repeat("\x00", 44),
		"s390x.so":  "\x7fELF\x02\x02\x01" + strings.Repeat("\x00", 9) + "\x00\x03\x00\x16" + strings.Repeat("\x00", 44),
		"short.so":  "\x7fELF\x02\x01\x01",
		"text.so":   strings.Repeat("text", 5),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink("x86-64.so", filepath.Join(dir, "link.so"))
	os.Symlink("nothing", filepath.Join(dir, "dangling.so"))
	d := &directories{files: files.New(files.Options{})}
	os.MkdirAll(filepath.Join(dir, "far", "away"), 0o755)
	os.Symlink("far/away", filepath.Join(dir, "near"))
	if d.has([]string{dir + "/near/.."}, "text.so") || !d.has([]string{dir + "/near/../.."}, "text.so") {
		t.Error(`".." after a symbolic link is not that link's directory`)
	}
	for _, c := range []struct {
		name       string
		has        bool
		x86, s390x bool
	}{
		{name: "x86-64.so", has: true, x86: true},
		{name: "link.so", has: true, x86: true},
		{name: "s390x.so", has: true, s390x: true},
		{name: "short.so", has: true},
		{name: "text.so", has: true},
		{name: "dangling.so"},
		{name: "nothing"},
	} {
		dirs := []string{filepath.Join(dir, "none"), dir}
		if got := d.has(dirs, c.name); got != c.has {
			t.Errorf("%s: there: %v", c.name, got)
		}
		if got := d.holds(dirs, c.name, files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Machine: elf.EM_X86_64}); got != c.x86 {
			t.Errorf("%s: for x86-64: %v", c.name, got)
		}
		if got := d.holds(dirs, c.name, files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2MSB, Machine: elf.EM_S390}); got != c.s390x {
			t.Errorf("%s: for s390x: %v", c.name, got)
		}
		if d.holds(dirs, c.name, files.ABI{Class: elf.ELFCLASS32, Data: elf.ELFDATA2LSB, Machine: elf.EM_X86_64}) || d.holds(dirs, c.name, files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Machine: elf.EM_AARCH64}) {
			t.Errorf("%s: for x32 or aarch64", c.name)
		}
		if d.holds(dirs, c.name, files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Machine: elf.EM_S390}) {
			t.Errorf("%s: for a little-endian s390x", c.name)
		}
	}
}

func TestOriginExpandsWhatCanBeTold(t *testing.T) {
	t.Chdir("/")
	for entry, want := range map[string][]string{
		"/a":                 {"/a"},
		"$ORIGIN/../lib":     {"/opt/bin/../lib"},
		"${ORIGIN}":          {"/opt/bin"},
		"relative":           nil,
		"":                   nil,
		"/a/$PLATFORM":       nil,
		"/a/$LIB/$PLATFORM":  nil,
		"$ORIGIN/${LIB}/sub": {"/opt/bin/lib/sub", "/opt/bin/lib64/sub", "/opt/bin/lib32/sub"},
	} {
		got := New(Settings{}).Entries(File{Path: "opt/bin/file"}).Directories(entry)
		if len(got) > 3 {
			got = got[:3] // the rest are Debian's names
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", entry, diff)
		}
	}
}

// write makes files below a directory of its own, and returns it.
func write(t *testing.T, files map[string]tinyelf.Object) string {
	t.Helper()
	dir := t.TempDir()
	for name, o := range files {
		tinyelf.Put(t, filepath.Join(dir, name), o)
	}
	return dir
}

func named(soname string) tinyelf.Object { return tinyelf.Object{}.With(elf.DT_SONAME, soname) }

// What the maps ask of the file system. D is the directory of the files.
func TestMapsLookIntoDirectories(t *testing.T) {
	t.Parallel()
	arm := named("libcublas.so.12")
	arm.Machine = elf.EM_AARCH64
	dir := write(t, map[string]tinyelf.Object{
		"cuda/compat/libcuda.so.1":    named("libcuda.so.1"),
		"empty/compat/libother.so":    named("libother.so"),
		"stubs/libcuda.so":            named("libcuda.so.1"),
		"stubs/libcublas.so":          named("libcublas.so.12"),
		"fakes/libcuda.so":            named("libcuda.so.1"),
		"lib/libcublas.so.12":         named("libcublas.so.12"),
		"arm/libcublas.so.12":         arm,
		"bin/program":                 {},
		"renamed/libcublas.so.12":     named("libelse.so"),
		"compat-by-name/libcuda.so.1": named("libcuda.so.1"),
	})
	for _, c := range []struct {
		name     string
		settings Settings
		maps     runpath.Map
		machine  elf.Machine
		needed   []string
		before   string
		after    string
		missing  []string
	}{
		{"the driver link of the machine", Settings{}, runpath.AddDriverLink, elf.EM_386, nil, "/a", driver.Link32 + ":/a", nil},
		{"the driver link that was named", Settings{DriverLink: "/z"}, runpath.AddDriverLink, elf.EM_386, nil, "/a", "/z:/a", nil},
		{"a compat directory that holds the driver goes first", Settings{}, runpath.AddDriverLink, elf.EM_X86_64, nil, "D/cuda/compat:/a", "D/cuda/compat:" + driver.Link + ":/a", nil},
		{"by $ORIGIN too", Settings{}, runpath.AddDriverLink, elf.EM_X86_64, nil, "$ORIGIN/../cuda/compat", "$ORIGIN/../cuda/compat:" + driver.Link, nil},
		{"one without it is an entry like others", Settings{}, runpath.AddDriverLink, elf.EM_X86_64, nil, "D/empty/compat", driver.Link + ":D/empty/compat", nil},
		{"one of another name is, too", Settings{}, runpath.AddDriverLink, elf.EM_X86_64, nil, "D/compat-by-name", driver.Link + ":D/compat-by-name", nil},
		{"a stub library that another entry holds", Settings{}, runpath.ReplaceStubs, elf.EM_X86_64, []string{"libcublas.so.12"}, "D/stubs:D/lib", driver.Link + ":D/lib", nil},
		{"by the name of its file, as the loader looks it up", Settings{}, runpath.ReplaceStubs, elf.EM_X86_64, []string{"libcublas.so.12"}, "D/stubs:D/renamed", driver.Link + ":D/renamed", nil},
		{"one that is for another machine is missing", Settings{}, runpath.ReplaceStubs, elf.EM_X86_64, []string{"libcublas.so.12"}, "D/stubs:D/arm", driver.Link + ":D/arm", []string{"libcublas.so.12"}},
		{"what no stub directory offered is not", Settings{}, runpath.ReplaceStubs, elf.EM_X86_64, []string{"libz.so.1"}, "D/stubs", driver.Link, nil},
		{"further stub directories", Settings{StubDirs: driver.StubDirs{Patterns: []string{"fakes"}}}, runpath.ReplaceStubs, elf.EM_X86_64, nil, "D/fakes:/a", driver.Link + ":/a", nil},
		{"a needed driver library that no entry holds", Settings{}, runpath.ReplaceStubs, elf.EM_X86_64, []string{"libcuda.so.1"}, "/a", driver.Link + ":/a", nil},
		{"position, empties and duplicates", Settings{DriverLast: true, KeepEmpty: true, Dedupe: true}, runpath.AddDriverLink, elf.EM_X86_64, nil, "/a::/a", "/a::" + driver.Link, nil},
	} {
		expand := func(s string) string { return strings.ReplaceAll(s, "D/", dir+"/") }
		f := File{Path: filepath.Join(dir, "bin/program"), ABI: files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Machine: c.machine}, Needed: c.needed}
		after, notes := New(c.settings).Apply(f, runpath.Parse(expand(c.before)), c.maps)
		if got, want := after.String(), expand(c.after); got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
		if diff := cmp.Diff(c.missing, notes.Missing); diff != "" {
			t.Errorf("%s: missing: %s", c.name, diff)
		}
	}
}

// The driver link, compat and stub directories are searched by the loader, whatever they hold now.
func TestResolutionNote(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]tinyelf.Object{
		"cuda/compat/libcuda.so.1": named("libcuda.so.1"),
		"named/libcuda.so.1":       named("libcuda.so.1"),
		"driver/libcuda.so.1":      named("libcuda.so.1"),
		"stubs/libcuda.so.1":       named("libcuda.so.1"),
		"fakes/libcuda.so.1":       named("libcuda.so.1"),
		"x-stubs/lib/libcuda.so.1": named("libcuda.so.1"),
		"lib/libcuda.so.1":         named("libcuda.so.1"),
		"lib/a:b":                  named("a:b"),
		"bin/program":              {},
	})
	for _, c := range []struct {
		list, want string
		settings   Settings
	}{
		{"D/lib", "=D/lib/libcuda.so.1", Settings{}},
		{"D/stubs:D/lib", "?D/stubs:=D/lib/libcuda.so.1", Settings{}},
		{"D/cuda/compat:" + driver.Link + ":D/lib", "?D/cuda/compat:?" + driver.Link + ":=D/lib/libcuda.so.1", Settings{}},
		{driver.Link32 + ":D/driver/", "?" + driver.Link32 + ":=D/driver//libcuda.so.1", Settings{}},
		{"D//driver/:D/lib", "?D//driver/:=D/lib/libcuda.so.1", Settings{DriverLink: "D/driver"}},
		{"D/named:D/lib", "?D/named:=D/lib/libcuda.so.1", Settings{Compat: "D/named/"}},
		{"D/fakes:D/lib", "?D/fakes:=D/lib/libcuda.so.1", Settings{StubDirs: driver.StubDirs{Patterns: []string{"fakes"}}}},
	} {
		full := func(s string) string { return strings.ReplaceAll(s, "D/", dir+"/") }
		c.settings.DriverLink, c.settings.Compat = full(c.settings.DriverLink), full(c.settings.Compat)
		n := New(c.settings).Resolution(File{Path: filepath.Join(dir, "bin/program")}, []string{"libcuda.so.1", "", "a:b"}, runpath.Parse(full(c.list)), nil)
		if got, want := string(n.Bytes()), "libcuda.so.1\x00"+full(c.want)+"\x00\x00"; got != want {
			t.Errorf("%s: %q, want %q", c.list, got, want)
		}
	}
}

// parse reads an ELF file from memory.
func parse(t *testing.T, o tinyelf.Object) *elfimage.Image {
	t.Helper()
	b := string(o.Bytes())
	im, err := elfimage.Parse(strings.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func TestNeedsDriver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    tinyelf.Object
		want bool
	}{
		"nothing":           {tinyelf.Object{}.Needs("libz.so.1"), false},
		"DT_NEEDED":         {tinyelf.Object{}.Needs("libz.so.1", "libcuda.so.1"), true},
		"the toolkit's":     {tinyelf.Object{}.Needs("libcudart.so.12"), true},
		".note.dlopen":      {tinyelf.Object{Dlopen: `[{"soname":["libnvidia-ml.so.1"]}]`}, true},
		"another's note":    {tinyelf.Object{Dlopen: `[{"soname":["libz.so.1"]}]`}, false},
		"a string literal":  {tinyelf.Object{Data: "x\x00libcuda.so.1\x00"}, true},
		"a soname's suffix": {tinyelf.Object{Data: "\x00libnotcuda.so.1\x00"}, false},
	} {
		if got, err := NeedsDriver(parse(t, c.o)); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A library is offered by its file's name, and by its soname where no file before it has that for either.
func TestLibraries(t *testing.T) {
	dir := write(t, map[string]tinyelf.Object{"liba.so": named("libs.so.1"), "libb.so": named("libs.so.1"), "libc.so": named("libd.so"), "libd.so": named("libe.so"), "libz.so.1": {}, "libe.text": named("libt.so")})
	m := New(Settings{})
	got := strings.ReplaceAll(fmt.Sprint(m.Libraries(dir)), dir+"/", "")
	if want := "map[liba.so:liba.so libb.so:libb.so libc.so:libc.so libd.so:libd.so libe.so:libd.so libs.so.1:liba.so libz.so.1:libz.so.1]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
