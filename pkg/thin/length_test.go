package thin

import (
	"bytes"
	"debug/elf"
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
	run("objcopy", "--add-section", ".signature=a.c", "b.so", "bsigned.so")
	run("strip", "-o", "stripped.so", "a.so")
	foreign(t, "a.so", "foreign.so")
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
		"linked.so": "its section .gnu_debuglink names a debug file", "signed.so": "", "bsigned.so": "", "a.c": "", "foreign.so": "",
	} {
		r, size, head := read(name)
		if got := bound(r, size, head, find); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
		want = map[string]string{"signed.so": "its section .sig holds a signature", "bsigned.so": "its section .signature holds a signature"}[name]
		if got := signed(read(name)); got != want {
			t.Errorf("%s: signed: %q, not %q", name, got, want)
		}
	}
}

// foreign makes of a library one whose build ID's note is not GNU's.
func foreign(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	copy(b[f.Section(".note.gnu.build-id").Offset+12:], "ABC\x00")
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}
