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
		if got, rpath := CompatDirs(filepath.Join(dir, name)); !slices.Equal(got, want) || rpath {
			t.Errorf("%s: %q (DT_RPATH: %v), not %q", name, got, rpath, want)
		}
	}
}
