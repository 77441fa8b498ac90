package runpaths

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/tests/tinyelf"
)

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

func TestStubsAreOfferedBySoname(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]tinyelf.Object{
		"stubs/libcuda.so":      named("libcuda.so.1"),
		"stubs/libnvidia-ml.so": named("libnvidia-ml.so.1"),
		"stubs/libcublas.so":    named("libcublas.so.12"), // the toolkit's: it has a real one
		"more/stubs/libcuda.so": named("libcuda.so.1"),
		"bin/program":           {},
	})
	m := normal.New(normal.Settings{})
	d := decision{Edit: &Edit{Normal: m}, path: filepath.Join(dir, "bin/program")}
	stubs := d.stubsAmong(parse(t, tinyelf.Object{}), runpath.List{"$ORIGIN/../stubs", "/a", filepath.Join(dir, "more/stubs")})
	if len(stubs) != 2 {
		t.Fatalf("stub directories: %q", stubs)
	}
	o := OfferIn(filepath.Join(dir, "offer"), m)
	o.From(stubs)
	o.From(stubs)
	if diff := cmp.Diff([]string{"libcuda.so.1", "libnvidia-ml.so.1"}, o.Names()); diff != "" || o.Errs != nil {
		t.Error(diff, o.Errs)
	}
	if to, _ := filepath.EvalSymlinks(filepath.Join(dir, "offer/libcuda.so.1")); to != filepath.Join(dir, "stubs/libcuda.so") {
		t.Errorf("libcuda.so.1 is %s", to)
	}
	// A file in the way is not overwritten; a link from an earlier run that leads nowhere is.
	for name, in := range map[string]func(string) error{
		"a file":          func(at string) error { return os.WriteFile(at, nil, 0o644) },
		"a dangling link": func(at string) error { return os.Symlink("/nowhere/at/all", at) },
	} {
		into := t.TempDir()
		if err := in(filepath.Join(into, "libcuda.so.1")); err != nil {
			t.Fatal(err)
		}
		o := OfferIn(into, m)
		o.From(stubs[:1])
		if got, want := len(o.Errs), map[string]int{"a file": 1}[name]; got != want {
			t.Errorf("%s in the way: %v", name, o.Errs)
		}
	}
}

// The directory is the one that was opened for the first stub, whatever its name leads to since, and no
// soname leads out of it.
func TestStubsAreOfferedInOneDirectory(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]tinyelf.Object{
		"stubs/libcuda.so":           named("libcuda.so.1"),
		"more/stubs/libnvidia-ml.so": named("libnvidia-ml.so.1"),
		"evil/stubs/libnvmedia.so":   named("libnvmedia/../../victim/libnvmedia.so"),
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.Mkdir(at("victim"), 0o755), os.MkdirAll(at("real/libnvmedia"), 0o755), os.Symlink("real", at("offer")),
		os.Symlink("/nowhere", at("victim/libnvidia-ml.so.1"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	o := OfferIn(at("offer"), normal.New(normal.Settings{}))
	o.From([]string{at("stubs")})
	if err := errors.Join(os.Remove(at("offer")), os.Symlink("victim", at("offer"))); err != nil {
		t.Fatal(err)
	}
	o.From([]string{at("more/stubs"), at("evil/stubs")})
	for name, want := range map[string]string{
		"real/libcuda.so.1": at("stubs/libcuda.so"), "real/libnvidia-ml.so.1": at("more/stubs/libnvidia-ml.so"), "victim/libnvidia-ml.so.1": "/nowhere",
	} {
		if to, err := os.Readlink(at(name)); to != want {
			t.Errorf("%s: %s, %v", name, to, err)
		}
	}
	if _, err := os.Lstat(at("victim/libnvmedia.so")); err == nil {
		t.Error("a soname leads out of the directory")
	}
	if diff := cmp.Diff([]string{"libcuda.so.1", "libnvidia-ml.so.1"}, o.Names()); diff != "" {
		t.Error(diff)
	}
	if o.Errs != nil {
		t.Error(o.Errs)
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

func TestShrinkKeepsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]tinyelf.Object{
		"needed/liba.so.1":         named("liba.so.1"),
		"second/liba.so.1":         named("liba.so.1"),
		"noted/libb.so.1":          named("libb.so.1"),
		"literal/libc.so.1":        named("libc.so.1"),
		"rust/libf.so.1":           named("libf.so.1"),
		"unused/libd.so.1":         named("libd.so.1"),
		"tmp/x/liba.so.1":          named("liba.so.1"),
		"tmp2/x/libe.so.1":         named("libe.so.1"),
		"tmp2not/libg.so.1":        named("libg.so.1"),
		"other/libg.so.1":          named("libg.so.1"),
		"cuda/compat/libcuda.so.1": named("libcuda.so.1"),
	})
	im := parse(t, tinyelf.Object{Dlopen: `[{"soname":["libb.so.1"]}]`, Data: "\x00libc.so.1\x00not found: libf.so.12345 times"}.Needs("liba.so.1", "libe.so.1", "libg.so.1"))
	before := "D/tmp/x:D/needed:D/second:D/noted:D/literal:D/rust:D/unused:D/kept:D/cuda/compat:D/tmp2/x:D/tmp2not:D/other::$ORIGIN/x"
	for _, c := range []struct {
		settings     normal.Settings
		want, unused string
	}{
		{normal.Settings{}, "D/needed:D/noted:D/literal:D/rust:D/kept:D/cuda/compat:D/tmp2/x:D/tmp2not:$ORIGIN/x", "D/tmp/x:D/second:D/unused:D/other"},
		{normal.Settings{KeepEmpty: true}, "D/needed:D/noted:D/literal:D/rust:D/kept:D/cuda/compat:D/tmp2/x:D/tmp2not::$ORIGIN/x", "D/tmp/x:D/second:D/unused:D/other"},
	} {
		expand := func(s string) string { return strings.ReplaceAll(s, "D/", dir+"/") }
		p := Edit{Normal: normal.New(c.settings), Temporary: []string{"", dir + "/tmp", dir + "/tmp2/"},
			Shrink: func(e string) bool { return e == filepath.Join(dir, "kept") }}
		after, notes, err := p.shrink(im, filepath.Join(dir, "program"), runpath.Parse(expand(before)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expand(c.want), after.String()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(expand(c.unused), strings.Join(notes.Unused, ":")); diff != "" || notes.Empties != 1 {
			t.Error(diff, notes.Empties)
		}
	}
}

// A run path that is empty already is not taken away: to the loader it is none.
func TestNothingBecomesNothing(t *testing.T) {
	for what, c := range map[string]struct {
		object  tinyelf.Object
		changes bool
	}{
		"an empty DT_RUNPATH": {tinyelf.Object{}.With(elf.DT_RUNPATH, ""), false},
		"none":                {tinyelf.Object{}, false},
		"one that is not":     {tinyelf.Object{}.With(elf.DT_RUNPATH, "/a"), true},
	} {
		if change, _, err := (Tag{}).Change(parse(t, c.object), nil); err != nil || (change != nil) != c.changes {
			t.Errorf("%s: %+v, %v", what, change, err)
		}
	}
}

// The directory of a toolkit library that a file opens by name goes behind the list, where nothing in that holds it: the first that has
// it for the file's machine, and none of stubs. D is the directory of the files.
func TestDirectoriesOfWhatIsOpened(t *testing.T) {
	arm := named("libcublas.so.12")
	arm.Machine = elf.EM_AARCH64
	dir := write(t, map[string]tinyelf.Object{
		"cuda/stubs/libcublas.so.12": named("libcublas.so.12"), "arm/libcublas.so.12": arm, "a/libcublas.so.12": named("libcublas.so.12"),
		"b/libcublas.so.12": named("libcublas.so.12"), "b/libother.so.1": named("libother.so.1"), "a/libcufft.so.11": named("libcufft.so.11"),
	})
	for names, c := range map[string]struct{ list, want string }{
		"libcublas.so.12":                   {"D/x", "D/x:D/a"},
		"libcublas.so.12\x00libcufft.so.11": {"D/x", "D/x:D/a"},
		"libcufft.so.11":                    {"", "D/a"},
		"libother.so.1":                     {"D/x", "D/x"},
		"libcudart.so.12":                   {"D/x", "D/x"},
		"libcublas.so.12\x00libother.so.1":  {"D/b", "D/b"},
	} {
		full := func(s string) runpath.List { return runpath.Parse(strings.ReplaceAll(s, "D/", dir+"/")) }
		o := named("libme.so")
		o.Data = "\x00" + names + "\x00"
		dirs := []string{dir + "/cuda/stubs", dir + "/arm", dir + "/a", dir + "/b"}
		p := Edit{Normal: normal.New(normal.Settings{}), Opened: dirs}
		after, opened, added, err := p.opened(parse(t, o), dir+"/libme.so", full(c.list))
		if diff := cmp.Diff(full(c.want), after); err != nil || diff != "" || len(added) != len(opened) || len(added) != len(after)-len(full(c.list)) {
			t.Errorf("%q: %v, %q in %q: %s", names, err, opened, added, diff)
		}
	}
}
