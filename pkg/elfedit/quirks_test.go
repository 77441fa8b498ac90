package elfedit

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// emptySegments are the PT_LOADs, by address, of which strip makes ones that do not load, as no section is in
// them, nor the ELF header; and those that can be written and have no section that can, of which eu-elflint complains.
func emptySegments(im *elfimage.Image) (out []string) {
	for i := range im.Progs {
		q := &im.Progs[i]
		if q.Type != elf.PT_LOAD || q.Off == 0 || q.Memsz == 0 {
			continue
		}
		if !slices.ContainsFunc(im.Sections, func(s elfimage.Section) bool {
			return s.Flags&elf.SHF_ALLOC != 0 && s.Size > 0 && s.Addr >= q.Vaddr && s.Addr+s.Size <= q.Vaddr+q.Memsz &&
				(q.Flags&elf.PF_W == 0 || s.Flags&elf.SHF_WRITE != 0)
		}) {
			out = append(out, fmt.Sprintf("%#x", q.Vaddr))
		}
	}
	return out
}

// patchelf has filled with Z since 0.13, with X before.
func TestFiller(t *testing.T) {
	for b, want := range map[string]int{"": 0, "\x00XZX\x00a\x00": 5, "Y": 0, "ZZZ": 3} {
		if got := filler([]byte(b)); got != want {
			t.Errorf("%q: %d", b, got)
		}
	}
}

// What an edit moves may be all that a segment has: version needs, the interpreter, .dynamic, notes or the string table,
// which an earlier edit gave one. Edits of each kind, one after the other, of all kinds in turn, and with what patchelf
// takes away between: no segment is left without a section, and strip, llvm-strip and objcopy leave a program that runs.
func TestNoSegmentIsLeftWithoutASection(t *testing.T) {
	if testing.Short() {
		t.Skip("runs linkers and what they make")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	dir := t.TempDir()
	source := "#include <stdio.h>\n#include <math.h>\nint main(int c, char **v) { return printf(\"%.0f\\n\", sin(c - 1)) < 0; }\n"
	if err := os.WriteFile(dir+"/main.c", []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	libm, err := exec.Command("gcc", "-print-file-name=libm.so.6").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	compile(t, dir, "-o", path, "main.c", "-lm")
	ld := interpreterOf(t, path)
	longer := func(n int, from, name string) string { // a path to a file of its own, longer each time
		to := filepath.Join(dir, strings.Repeat("d/", 20*n+n*n), name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, to); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		return to
	}
	kinds := map[string]func(n int, im *image) Change{
		"library": func(n int, im *image) Change {
			names, err := im.DynStrings(elf.DT_NEEDED)
			if err != nil {
				t.Fatal(err)
			}
			c := Change{Needed: &Needed{Names: slices.Clone(names), Renamed: map[string]string{}}}
			i := slices.IndexFunc(names, func(s string) bool { return strings.Contains(s, "libm") })
			c.Needed.Names[i] = longer(n, strings.TrimSpace(string(libm)), "libm.so.6")
			c.Needed.Renamed[names[i]] = c.Needed.Names[i]
			return c
		},
		"interpreter": func(n int, im *image) Change { return Change{Interpreter: ptr(longer(n, ld, "ld.so"))} },
		"run path":    func(n int, im *image) Change { return setPath(elf.DT_RUNPATH, strings.Repeat("/l", 60*n*n)) },
		"needed": func(n int, im *image) Change { // .dynamic has no entry left for so many
			names, err := im.DynStrings(elf.DT_NEEDED)
			if err != nil {
				t.Fatal(err)
			}
			for range 7 {
				names = append(names, "libc.so.6")
			}
			return Change{Needed: &Needed{Names: names}}
		},
		"note": func(n int, im *image) Change {
			return Change{ResolutionNote: ptr(noteOf(strings.Repeat("n", 400*n*n), 2))}
		},
	}
	var order []string
	for name := range kinds {
		order = append(order, name)
	}
	slices.Sort(order)
	chains := map[string][]string{"all in turn": slices.Concat(order, order, order)}
	for _, name := range order {
		chains[name] = []string{name, name, name, name}
	}
	patchelf := os.Getenv("PATCHELF") // what those before 0.19 break they break without us, too
	if patchelf == "" {
		patchelf = "patchelf"
	}
	out, _ := exec.Command(patchelf, "--version").Output()
	minor := 0
	if fmt.Sscanf(string(out), "patchelf 0.%d", &minor); minor < 19 {
		t.Logf("no patchelf 0.19: %q", out)
	}
	for _, flags := range []string{"-pie", "-no-pie", "-pie -fuse-ld=lld", "-pie -fuse-ld=mold", "-no-pie -fuse-ld=gold", "-pie -Wl,-z,noseparate-code"} {
		if out, err := exec.Command("sh", "-c", "cd "+dir+" && gcc -o "+path+" main.c -lm "+flags).CombinedOutput(); err != nil {
			t.Logf("%s: not to be had: %.100s", flags, out)
			continue
		}
		built, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		runs := func(b []byte, what string) {
			t.Helper()
			os.Remove(path)
			if err := os.WriteFile(path, b, 0o755); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != "0\n" {
				t.Errorf("%s, %s: %v, %q", flags, what, err, out)
			}
		}
		apply := func(b []byte, args ...string) []byte {
			os.Remove(path)
			if err := os.WriteFile(path, b, 0o755); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(args[0], append(args[1:], path)...).CombinedOutput(); err != nil {
				t.Logf("%s: %v: %v, %.200s", flags, args[0], err, out)
				return nil
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return after
		}
		for name, chain := range chains {
			b, seen := built, map[string]int{}
			for i, kind := range chain {
				seen[kind]++
				what := fmt.Sprintf("%s, %d", name, i+1)
				c := kinds[kind](seen[kind]+1, parse(t, b))
				if _, err := parse(t, b).plan(c); err != nil && c.ResolutionNote != nil && !errors.As(err, new(*BugError)) {
					break // no place for the note
				}
				b = edit(t, b, c)
				if empty := emptySegments(asItIs(t, b)); len(empty) > 0 {
					t.Errorf("%s, %s: no section is in the segments at %v", flags, what, empty)
				}
				runs(b, what)
				for _, tool := range []string{"strip", "llvm-strip", "objcopy"} {
					if flags != "-pie" && i != len(chain)-1 { // of the other linkers what all edits together make
						break
					}
					if after := apply(b, tool); after != nil {
						runs(after, what+", "+tool)
					}
				}
				if i != len(chain)-1 || minor < 19 {
					continue
				}
				for _, args := range [][]string{{"--set-rpath", strings.Repeat("/p", 2500)}, {"--set-interpreter", longer(9, ld, "ld.so")}} {
					after := apply(b, append([]string{patchelf}, args...)...)
					if after == nil {
						continue
					}
					if empty := emptySegments(asItIs(t, after)); len(empty) > 0 {
						t.Errorf("%s, %s, patchelf %s: no section is in the segments at %v", flags, what, args[0], empty)
					}
					// Program headers that it has moved to the end, strip puts back after the ELF header, over what is there.
					if parse(t, after).Phoff != 64 {
						continue
					}
					if after = apply(after, "strip"); after != nil {
						runs(after, what+", patchelf "+args[0]+", strip")
					}
				}
			}
		}
	}
}

// Of a segment of another tool's, what all moves out of may be a little behind bytes that no section describes: the section
// that stays covers what has moved, which is zeros then, and nothing else.
func TestHoleOfAForeignSegment(t *testing.T) {
	tried := 0
	for name, l := range shapes {
		if !l.program || l.noSections {
			continue
		}
		b := l.build(t)
		edited := func(b []byte, n int) []byte {
			e, err := parse(t, b).plan(Change{Interpreter: ptr("/" + strings.Repeat("l", n))})
			if err != nil || e == nil {
				return nil
			}
			states := statesOf(t, e)
			return states[len(states)-1]
		}
		if b = edited(b, 200); b == nil {
			continue
		}
		im := parse(t, b)
		hole := slices.IndexFunc(im.Sections, func(s elfimage.Section) bool { return s.Type == elf.SHT_PROGBITS && s.Size == segmentHead })
		old := im.Prog(elf.PT_INTERP)
		if hole < 0 || im.Segment(old.Vaddr, 1).Vaddr != im.Sections[hole].Addr {
			continue
		}
		s := im.Sections[hole]
		copy(b[s.Off:], strings.Repeat("X", int(s.Size)))
		im.EncodeSection(b[im.Shoff+uint64(hole)*im.ShdrSize():], elfimage.Section{})
		after := edited(b, 600)
		if after == nil {
			continue
		}
		tried++
		now := parse(t, after)
		for i := range now.Sections {
			s := &now.Sections[i]
			if now.isHole(i) && len(bytes.Trim(after[s.Off:s.Off+s.Size], "\x00")) > 0 {
				t.Errorf("%s: the hole at %#x, %#x bytes, is not one: %.20q", name, s.Addr, s.Size, after[s.Off:])
			}
		}
		if empty := emptySegments(now.Image); len(empty) > 0 {
			t.Errorf("%s: no section is in the segments at %v", name, empty)
		}
		again := edited(after, 1500) // and the next edit knows it for what it is
		if again == nil || len(emptySegments(asItIs(t, again))) > 0 {
			t.Errorf("%s: after the next edit the segments are %v", name, again != nil)
		}
	}
	if tried == 0 {
		t.Error("the test tests nothing")
	}
	t.Log(tried, "files")
}

// Debian 12's patchelf (0.14.3) moves a note and leaves the PT_GNU_PROPERTY that said where it was, over what came there:
// on x86 such a header says nothing to the loader, and the program is edited, and runs.
func TestStaleProperty(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(dir+"/main.c", []byte("int main(void) { return 7; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	compile(t, dir, "-o", path, "main.c", "-fcf-protection", "-Wl,-rpath,/old")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	im, err := elfimage.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	header := slices.IndexFunc(im.Progs, func(p elfimage.Prog) bool { return p.Type == elf.PT_GNU_PROPERTY })
	if im.Machine != elf.EM_X86_64 || header < 0 {
		t.Skip("this compiler makes no such header")
	}
	strtab, _ := im.Dyn(elf.DT_STRTAB)
	for field := range 3 { // p_offset, p_vaddr, p_paddr: the table is in the first page, where they are the same
		im.Order.PutUint64(b[im.Phoff+uint64(header)*im.PhdrSize()+8+8*uint64(field):], strtab.Val&^7)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"/new", strings.Repeat("/a/longer/one:", 300) + "/end", "/short"} {
		editPath(t, path, Change{RunPath: &RunPath{Tag: elf.DT_RUNPATH, List: list}})
		if err := exec.Command(path).Run(); err == nil || err.Error() != "exit status 7" {
			t.Errorf("with %d bytes: %v", len(list), err)
		}
	}
}
