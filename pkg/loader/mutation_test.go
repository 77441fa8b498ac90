package loader

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Each field of the ELF header and of the program headers, of a program and of its library, is
// changed in many ways, one at a time. The kernel and the loader of this machine are the judge:
// what they start is not refused.
func TestWhatRunsIsNotRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the fields' places are those of 64-bit little-endian files")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	cc := func(source string, args ...string) []byte {
		cmd := exec.Command("cc", append([]string{"-xc", "-", "-xnone", "-o", "out"}, args...)...)
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("%v: %s", err, out)
		}
		b, _ := os.ReadFile("out")
		return b
	}
	library := cc("int f(void) { return 0; }", "-shared", "-fPIC", "-Wl,-soname,libf.so")
	os.WriteFile("libf.so", library, 0o755)
	program := cc("int f(void); int main(void) { return f(); }", "libf.so", "-Wl,-rpath,"+dir)
	os.WriteFile("p", program, 0o755)
	if err := exec.Command("./p").Run(); err != nil {
		t.Skip(err)
	}
	type field struct {
		name     string
		at, size int
	}
	fields := []field{{"EI_CLASS", 4, 1}, {"EI_DATA", 5, 1}, {"EI_VERSION", 6, 1}, {"EI_OSABI", 7, 1}, {"EI_ABIVERSION", 8, 1}, {"EI_PAD", 12, 1},
		{"e_type", 16, 2}, {"e_machine", 18, 2}, {"e_version", 20, 4}, {"e_phoff", 32, 8}, {"e_shoff", 40, 8}, {"e_flags", 48, 4},
		{"e_ehsize", 52, 2}, {"e_phentsize", 54, 2}, {"e_phnum", 56, 2}, {"e_shentsize", 58, 2}, {"e_shnum", 60, 2}, {"e_shstrndx", 62, 2}}
	// The kernel does not look at a program's class and byte order: to it they are its own. A part that
	// is not in the file is none as long as nothing touches it, which nobody can tell without running it.
	untold := []string{"EI_CLASS ", "EI_DATA ", "outside the file", "wraps around", "is in no PT_LOAD", "no dynamic section"}
	le := binary.LittleEndian
	runs, refused, judged := 0, 0, 0
	for name, original := range map[string][]byte{"p": program, "libf.so": library} {
		all := fields
		for i := range int(le.Uint16(original[56:])) {
			at := int(le.Uint64(original[32:])) + 56*i
			for j, f := range []string{"p_offset", "p_vaddr", "p_paddr", "p_filesz", "p_memsz", "p_align"} {
				all = append(all, field{fmt.Sprintf("%s of header %d (type %#x)", f, i, le.Uint32(original[at:])), at + 8 + 8*j, 8})
			}
			all = append(all, field{fmt.Sprintf("p_type of header %d (type %#x)", i, le.Uint32(original[at:])), at, 4})
		}
		judge := func(what string, b []byte) {
			os.Remove(name) // not in place: the loader's pages of an earlier run may be in use
			os.WriteFile(name, b, 0o755)
			ran := exec.Command("./p").Run() == nil
			l, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			why := ""
			if s, err := l.Load(filepath.Join(dir, "p")); err != nil {
				why = err.Error()
			} else if why = s.Stops(); why == "" && len(s.Missing()) > 0 {
				why = "missing: " + s.Missing()[0].Name
			}
			if judged++; ran {
				runs++
			}
			if refusal := what + why; ran && why != "" {
				if refused++; slices.ContainsFunc(untold, func(s string) bool { return strings.Contains(refusal, s) }) {
					return
				}
				t.Errorf("%s of %s: it runs, but: %s", what, name, why)
			}
		}
		for _, f := range all {
			word := make([]byte, 8)
			copy(word, original[f.at:f.at+f.size])
			old := le.Uint64(word)
			for _, v := range []uint64{0, 1, 3, old + 1, old - 1, old + 8, old + 4096, old / 2, old * 2, 0x7fff_ffff_ffff_fff0, 1<<64 - 1} {
				b := bytes.Clone(original)
				le.PutUint64(word, v)
				copy(b[f.at:f.at+f.size], word)
				if !bytes.Equal(b, original) {
					judge(fmt.Sprintf("%s %#x → %#x", f.name, old, v), b)
				}
			}
		}
		judge("cut off before the section headers", original[:le.Uint64(original[40:])])
		judge("cut off in the section headers", original[:le.Uint64(original[40:])+100])
		judge("with more at the end", append(bytes.Clone(original), make([]byte, 5000)...))
		os.WriteFile(name, original, 0o755)
	}
	if refused*40 > runs { // of those that cannot be told; with section headers and the like it was a fifth
		t.Errorf("%d of %d are refused", refused, runs)
	}
	t.Logf("%d changes, %d of them run, %d of those are refused", judged, runs, refused)
}
