package explain

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/loader/tinyelf"
	"cuda-runpath/pkg/resolution"
)

func lib(soname string, needed ...string) tinyelf.Object {
	return tinyelf.Object{}.With(elf.DT_SONAME, soname).Needs(needed...)
}

// load puts files into a root and loads /p in it.
func load(t *testing.T, files map[string]tinyelf.Object) *loader.Load {
	t.Helper()
	return loadFrom(t, "/p", files)
}

// loadFrom is load for another file.
func loadFrom(t *testing.T, file string, files map[string]tinyelf.Object) *loader.Load {
	t.Helper()
	root := t.TempDir()
	for name, o := range files {
		os.MkdirAll(filepath.Dir(root+name), 0o755)
		if err := os.WriteFile(root+name, o.Bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := loader.New(loader.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func program(list string, tag elf.DynTag, needed ...string) tinyelf.Object {
	p := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs(needed...)
	if list != "" {
		p = p.With(tag, list)
	}
	return p
}

// What is said of libcuda.so.1, by where it is and who asks for it.
func TestVerdicts(t *testing.T) {
	const cuda, link = driver.LibCUDA, driver.Link
	for _, c := range []struct {
		name    string
		files   map[string]tinyelf.Object
		origin  Origin
		good    bool
		command string // of the remedy
	}{
		{"through the driver link", map[string]tinyelf.Object{"/p": program(link, elf.DT_RUNPATH, cuda), link + "/" + cuda: lib(cuda)}, FromDriver, true, ""},
		{"a stub", map[string]tinyelf.Object{"/p": program("/cuda/stubs", elf.DT_RUNPATH, cuda), "/cuda/stubs/" + cuda: lib(cuda)}, FromStub, false, "stubReplace"},
		{"no driver on this machine", map[string]tinyelf.Object{"/p": program(link, elf.DT_RUNPATH, cuda)}, FromNowhere, false, ""},
		{"no driver link", map[string]tinyelf.Object{"/p": program("", 0, cuda)}, FromNowhere, false, "autoAddDriverRunpath"},
		{"the program's DT_RPATH counts for its libraries", map[string]tinyelf.Object{"/p": program("/l:"+link, elf.DT_RPATH, "liba.so"), "/l/liba.so": lib("liba.so", cuda)}, FromNowhere, false, ""},
		{"its DT_RUNPATH does not", map[string]tinyelf.Object{"/p": program("/l:"+link, elf.DT_RUNPATH, "liba.so"), "/l/liba.so": lib("liba.so", cuda)}, FromNowhere, false, "autoAddDriverRunpath"},
		{"from a store", map[string]tinyelf.Object{"/p": program("/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-driver/lib", elf.DT_RUNPATH, cuda),
			"/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-driver/lib/" + cuda: lib(cuda)}, FromOther, false, ""},
		{"in a default directory", map[string]tinyelf.Object{"/p": program("", 0, cuda), "/usr/lib64/" + cuda: lib(cuda)}, FromDriver, true, ""},
		{"needed by a path", map[string]tinyelf.Object{"/p": program(link, elf.DT_RUNPATH, "cuda/"+cuda)}, FromNowhere, false, "runpath"},
	} {
		s := load(t, c.files)
		all := (&Layout{}).Driver(s)
		if len(all) != 1 {
			t.Errorf("%s: %d verdicts", c.name, len(all))
			continue
		}
		v, command := all[0], ""
		if v.Command != nil {
			command = v.Command[0]
		}
		if v.Origin != c.origin || v.Good != c.good || command != c.command || v.Fix != "" && !strings.Contains(v.Text, v.Fix) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func TestFindAndWays(t *testing.T) {
	s := load(t, map[string]tinyelf.Object{"/p": program("/l", elf.DT_RPATH, "liba.so", "libc.so"), "/l/liba.so": lib("liba.so", "libb.so"), "/l/libb.so": lib("libb.so"), "/l/libc.so": lib("libc.so")})
	b := Find(s, "libb.so")
	if !b.Found() || b.Path != "/l/libb.so" {
		t.Fatalf("%+v", b)
	}
	var on []string
	for _, o := range s.Objects {
		if Ways(s, b)[o] {
			on = append(on, o.Path)
		}
	}
	if !slices.Equal(on, []string{"/p", "/l/liba.so", "/l/libb.so"}) {
		t.Errorf("%q", on)
	}
	f := Describe(s, &Layout{})
	if len(f.Libraries) != 3 || f.Missing != 0 || !strings.Contains(f.Error, "ld-linux") || f.Tag != "DT_RPATH" {
		t.Errorf("%+v", f)
	}
	if f.Only(b); len(f.Libraries) != 1 || *f.Libraries[0].NeededBy != "/l/liba.so" || *f.Libraries[0].Entry != "/l" {
		t.Errorf("%+v", f.Libraries)
	}
	if o := Find(s, "libnone.so"); o.Found() || o.Cause != loader.DlopenAsked {
		t.Errorf("%+v", o)
	}
}

func TestNoteThatNamesAStub(t *testing.T) {
	s := load(t, map[string]tinyelf.Object{"/p": program("", 0, driver.LibCUDA)})
	for place, want := range map[resolution.Place]string{
		"=/cuda/stubs/libcuda.so.1": "look for libcuda.so.1 at /cuda/stubs/libcuda.so.1, a stub",
		"?/cuda/stubs":              "look for libcuda.so.1 in /cuda/stubs, a directory of stubs",
	} {
		s.Main.File.Note = resolution.Note{{Name: driver.LibCUDA, Places: []resolution.Place{place}}}
		all := (&Case{Layout: &Layout{}, Load: s}).Note(s.Main)
		if len(all) != 1 || all[0].Kind != NoteNamesStub || !strings.HasSuffix(all[0].Text, want) {
			t.Errorf("%s: %+v", place, all)
		}
	}
}

// A place that the run path does not have is one of a run path of before, also where nothing is there yet.
func TestNoteOfAnotherRunPath(t *testing.T) {
	s := load(t, map[string]tinyelf.Object{"/p": program("/gone:/l", elf.DT_RUNPATH, "liba.so"), "/l/liba.so": lib("liba.so")})
	for place, want := range map[resolution.Place]string{
		"=/l/liba.so":      "",
		"?/gone":           "",
		"?/l":              "",
		"?/none":           "lets it look for liba.so in /none, which is not in the run path",
		"=/none/liba.so":   "lets it look for liba.so at /none/liba.so, which the run path does not lead to",
		"=/l/../l/liba.so": "lets it look for liba.so at /l/../l/liba.so, which the run path does not lead to",
		"neither":          "",
	} {
		s.Main.File.Note = resolution.Note{{Name: "liba.so", Places: []resolution.Place{place, "=/l/liba.so"}}}
		all := (&Case{Layout: &Layout{}, Load: s}).Note(s.Main)
		if want == "" && len(all) > 0 || want != "" && (len(all) != 1 || all[0].Kind != StaleNote || !strings.HasSuffix(all[0].Text, want)) {
			t.Errorf("%s: %+v", place, all)
		}
	}
}

// A library of a store that names no loader: which glibc its program has is not known, and nothing of
// it is missing; it has no default directories.
func TestLibraryInAStoreWithoutALoader(t *testing.T) {
	const dir = "/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-nvidia-cublas/lib"
	s := loadFrom(t, dir+"/python/libcublas.so.12", map[string]tinyelf.Object{
		dir + "/python/libcublas.so.12": lib("libcublas.so.12", "libc.so.6", "ld-linux-x86-64.so.2", "libcublasLt.so.12"),
		dir + "/libcublasLt.so.12":      lib("libcublasLt.so.12"),
	})
	f := Describe(s, &Layout{})
	var got []string
	for _, l := range f.Libraries {
		where := "nowhere"
		if l.Path != nil {
			where = *l.Path
		}
		got = append(got, l.Soname+" "+where+" "+l.Rule)
	}
	want := []string{"libc.so.6 libc.so.6 the program's glibc", "ld-linux-x86-64.so.2 ld-linux-x86-64.so.2 the loader itself", "libcublasLt.so.12 nowhere not found"}
	if !slices.Equal(got, want) || f.Missing != 1 || f.Interpreter != "" || f.Loader != "glibc" {
		t.Errorf("%q, %d missing, %q %q", got, f.Missing, f.Interpreter, f.Loader)
	}
	for _, p := range (&Case{Layout: &Layout{}, Load: s}).Problems() {
		if p.Object.Name != "libcublasLt.so.12" {
			t.Errorf("%s", p.Text)
		}
	}
}
