package thin

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What belongs to a file from outside is seen; the debug file of another file is not its.
func TestBound(t *testing.T) {
	if _, err := exec.LookPath("objcopy"); err != nil {
		t.Skip("no objcopy")
	}
	t.Chdir(t.TempDir())
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	os.WriteFile("a.c", []byte("int f(void) { return 1; }"), 0o644)
	os.WriteFile("b.c", []byte("int g(void) { return 2; }"), 0o644)
	run("cc", "-g", "-shared", "-Wl,--build-id=sha1", "-o", "a.so", "a.c")
	run("cc", "-g", "-shared", "-Wl,--build-id=sha1", "-o", "b.so", "b.c")
	run("objcopy", "--only-keep-debug", "a.so", "a.debug")
	run("objcopy", "--add-gnu-debuglink=a.debug", "a.so", "linked.so")
	run("objcopy", "--add-section", ".sig=a.c", "b.so", "signed.so")
	run("strip", "-o", "stripped.so", "a.so")
	read := func(name string) (*bytes.Reader, int64, []byte) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(b), int64(len(b)), b[:min(len(b), 4096)]
	}
	debug := DebugFileOf(read("a.debug"))
	if len(debug) != 40 || DebugFileOf(read("a.so")) != "" {
		t.Errorf("the debug file is of %q, the library is one of %q", debug, DebugFileOf(read("a.so")))
	}
	find := func(id string) string {
		if id == debug {
			return filepath.Join("d", id)
		}
		return ""
	}
	for name, want := range map[string]string{
		"a.so": "d/" + debug + " is its debug file", "stripped.so": "d/" + debug + " is its debug file", "b.so": "",
		"linked.so": "its section .gnu_debuglink names a debug file", "signed.so": "", "a.c": "",
	} {
		r, size, head := read(name)
		if got := Bound(r, size, head, find); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
		want = ""
		if name == "signed.so" {
			want = "its section .sig holds a signature"
		}
		if got := Signed(read(name)); got != want {
			t.Errorf("%s: signed: %q, not %q", name, got, want)
		}
	}
}
