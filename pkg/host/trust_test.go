package host

import (
	"os"
	"path/filepath"
	"strings"
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

// What is not there yet is trusted where nobody else can make it first, on whatever way: not in a sticky directory, in
// which others can replace nothing that is there.
func TestTrustedOfWhatIsNotThere(t *testing.T) {
	h := host(t, map[string]string{"opt/lib": "x", "tmp/lib": "x", "open/lib": "x"})
	for name, mode := range map[string]os.FileMode{"opt": 0o755, "tmp": 0o777 | os.ModeSticky, "open": 0o777} {
		if err := os.Chmod(filepath.Join(h.Root.Dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/nowhere", filepath.Join(h.Root.Dir, "opt/dangling")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/opt/lib": "", "/opt/none": "", "/opt/none/of/it": "", "/none": "", "/tmp/lib": "",
		"/tmp/none": "anyone can write /tmp", "/tmp/none/of/it": "anyone can write /tmp",
		"/open/lib": "anyone can write /open", "/open/none": "anyone can write /open",
		"/opt/dangling/x": "/opt/dangling is a link that leads nowhere",
	} {
		if err := h.Trusted(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
