package host

import (
	"os"
	"path/filepath"
	"testing"
)

// Who else can write a file is said by name: here the group that it belongs to.
func TestGroupThatCanWriteIsNamed(t *testing.T) {
	h := host(t, map[string]string{"lib": "x"})
	at := filepath.Join(h.Root.Dir, "lib")
	if err := os.Chown(at, os.Geteuid(), 4321); err != nil {
		t.Skip("another group cannot be given: ", err)
	}
	for mode, want := range map[os.FileMode]string{0o664: "group 4321 can write %s (chmod g-w)", 0o644: "", 0o646: "anyone can write %s"} {
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(at)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.writable("/lib", info); got != want || err != nil {
			t.Errorf("mode %o: %q, %v", mode, got, err)
		}
	}
}
