package host

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader/tinyelf"
)

// A program's $ORIGIN is where its file is, whatever link it is started by, and a name that only begins with "ORIGIN" is
// not that token.
func TestCompatDirsOfAProgramBehindALink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := tinyelf.Object{Interp: "/lib/ld-linux-of-a-test.so.2"}.
		With(elf.DT_RUNPATH, "$ORIGIN/../compat:$ORIGINAL/compat:/nowhere/compat::relative/compat")
	for name, o := range map[string]tinyelf.Object{
		"p/bin/program":                        program,
		"p/compat/" + driver.LibCUDA:           {},
		"p/binAL/compat/" + driver.LibCUDA:     {},
		"working/relative/compat/libcuda.so.1": {},
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, o.Bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("p/bin/program", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "working"))
	want := []string{dir + "/p/compat", dir + "/working/relative/compat"}
	for _, name := range []string{"p/bin/program", "link"} {
		if w := Wanted(filepath.Join(dir, name)); !slices.Equal(w.Compat, want) || w.RPath {
			t.Errorf("%s: %+v, not %q", name, w, want)
		}
	}
}

// Whether a namespace in which the driver link leads to the driver is all that a program needs.
func TestWhatProgramsWant(t *testing.T) {
	dir := t.TempDir()
	const cuda, interp = driver.LibCUDA, "/lib64/ld-linux-x86-64.so.2"
	program := func(runPath string, needs ...string) tinyelf.Object {
		return tinyelf.Object{Interp: interp}.With(elf.DT_RUNPATH, runPath).Needs(needs...)
	}
	opens := tinyelf.Object{Interp: interp, Data: "x\x00" + cuda + "\x00"}
	for name, c := range map[string]struct {
		files map[string][]byte
		want  bool
	}{
		"the driver link":          {map[string][]byte{"p": program(driver.Link, cuda).Bytes()}, true},
		"another link":             {map[string][]byte{"p": program("/nowhere", cuda).Bytes()}, false},
		"nothing of the driver's":  {map[string][]byte{"p": program(driver.Link).Bytes()}, false},
		"by dlopen, with the link": {map[string][]byte{"p": opens.With(elf.DT_RUNPATH, driver.Link).Bytes()}, true},
		"by dlopen, without":       {map[string][]byte{"p": opens.Bytes()}, false},
		"a stub before the link":   {map[string][]byte{"p": program(dir+"/stubs:"+driver.Link, cuda).Bytes(), "stubs/" + cuda: tinyelf.Object{}.With(elf.DT_SONAME, cuda).Bytes()}, false},
		"a library's, which has none": {map[string][]byte{"p": program(dir+":"+driver.Link, "liba.so.1").Bytes(),
			"liba.so.1": tinyelf.Object{}.With(elf.DT_SONAME, "liba.so.1").Needs(cuda).Bytes()}, false},
		"a wrapper of it": {map[string][]byte{"p": []byte("#!/bin/sh\nexec \"" + dir + "/q\" \"$@\"\n"), "q": program(driver.Link, cuda).Bytes()}, true},
		"a text":          {map[string][]byte{"p": []byte("text")}, false},
		"nothing":         {nil, false},
	} {
		for at, data := range c.files {
			os.MkdirAll(filepath.Dir(filepath.Join(dir, at)), 0o755)
			if err := os.WriteFile(filepath.Join(dir, at), data, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if w := Wanted(filepath.Join(dir, "p")); w.Linked(driver.Link) != c.want {
			t.Errorf("%s: %+v", name, w)
		}
		os.RemoveAll(dir)
	}
}
