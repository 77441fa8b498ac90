package audit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Links count that lead out of the directories given: to files, each once for a directory in which it is found, and to
// directories, whose own links count too; not to what is walked, is above that, is a store, or holds a whole system.
func TestFarm(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"farm/lib", "farm/bin", "pkg/lib", "pkg/other", "more", "store/x"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"farm/lib/own.so", "pkg/a.so", "pkg/lib/b.so", "more/c.so"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"farm/lib/a.so": "../../pkg/a.so", "farm/lib/a.so.1": "../../pkg/a.so", "farm/bin/a.so": "../../pkg/a.so",
		"farm/lib/inside.so": "own.so", "farm/lib/none.so": "nowhere", "farm/pkg": "../pkg/lib", "pkg/lib/c.so": "../../more/c.so",
		"farm/again": "../pkg/lib", "farm/up": "..", "farm/root": "/", "farm/dev": "/dev", "farm/store": "../store",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	got := Farm([]string{"farm", "nowhere"})
	if want := []string{"farm/again", "farm/again/c.so", "farm/bin/a.so", "farm/lib/a.so"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := errors.Join(os.Remove("farm/again"), os.Remove("farm/lib/a.so")); err != nil {
		t.Fatal(err)
	}
	if got, want := Farm([]string{"farm/", "more"}), []string{"farm/bin/a.so", "farm/lib/a.so.1", "farm/pkg"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
