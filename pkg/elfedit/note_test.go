package elfedit

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/tests/judge"
)

// noteOf is the description of a resolution note for a needed library; longer ones have more entries.
func noteOf(dir string, entries int) string {
	var b strings.Builder
	for i := range entries {
		fmt.Fprintf(&b, "lib%d.so\x00=/nix/store/%s/lib/lib%d.so\x00", i, dir, i)
	}
	return b.String() + "\x00"
}

const stub = "?/a\x00?/b\x00\x00"

// noteShapes are files with and without notes of somebody else, and of ours.
func noteShapes() map[string]shape {
	all := map[string]shape{
		"alone":            plain().with(func(l *shape) { l.note, l.cache = 0, noteOf("11111111-old", 2) }),
		"among others":     plain().with(func(l *shape) { l.cache = noteOf("11111111-old", 2) }),
		"not a program":    plain().with(func(l *shape) { l.program = false }),
		"without any note": plain().with(func(l *shape) { l.note = 0 }),
	}
	for name, l := range shapes {
		if _, none := noPlace[name]; !none {
			all[name] = l
		}
	}
	return all
}

// noPlace are shapes in which no program header can be added, or no section.
var noPlace = map[string]bool{
	"code after the headers, .bss": true, "code after the headers, appended data": true, "code after the headers, no spare entry": true,
	"code after the headers, no section headers, i386": true, "no section headers": true, "no section headers, library": true,
}

// A file that has no place for another program header can be edited without the note.
func TestNoPlaceForANote(t *testing.T) {
	for name := range noPlace {
		b := shapes[name].build(t)
		list := RunPath{elf.DT_RUNPATH, lists[2]}
		if e, err := parse(t, b).plan(Change{RunPath: &list, ResolutionNote: ptr(stub)}); e != nil || err == nil {
			t.Errorf("%s: %v, %v", name, e, err)
		}
		edit(t, b, Change{RunPath: &list, ResolutionNote: ptr("")})
	}
}

func descriptionOf(t *testing.T, im *image) string {
	t.Helper()
	c, err := im.ResolutionCache()
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return ""
	}
	return c.Description
}

// othersOf is viewOf without resolution notes, also silent ones.
func othersOf(t *testing.T, im *image) string {
	t.Helper()
	const others = 2 * (16 + 20) // digits: the note of noteShapes
	var out []string
	for _, line := range strings.Split(viewOf(t, im), "\n") {
		if hex, ok := strings.CutPrefix(line, "note "); ok {
			if !strings.Contains(line, "abab") {
				continue
			}
			line = "note " + hex[:min(others, len(hex))]
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// checkNote checks that the note is there and has headers of its own.
func checkNote(t *testing.T, b []byte, want string) {
	t.Helper()
	im := parse(t, b)
	c, err := im.ResolutionCache()
	if err != nil || c == nil || c.Description != want {
		t.Fatalf("the note is %+v (%v), not %q", c, err, want)
	}
	if c.Prog < 0 || len(im.Sections) > 0 && (c.Section < 0 || im.SectionName(c.Section) != cacheSection) {
		t.Errorf("the note's headers are %d and %d", c.Prog, c.Section)
	}
	n := 0
	for _, p := range im.Progs {
		if p.Type == elf.PT_NOTE && p.Off == c.Off {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d PT_NOTE are at the note's place", n)
	}
}

// A note reads back as it was given, by itself and with a run path, into a file with or
// without one, and its next edit finds nothing to do. What was there before is gone.
func TestNoteReadsBack(t *testing.T) {
	for name, l := range noteShapes() {
		old := l.build(t)
		for what, c := range map[string]Change{
			"alone":          {ResolutionNote: ptr(noteOf("new", 3))},
			"with a list":    {ResolutionNote: ptr(noteOf("new", 40)), RunPath: &RunPath{elf.DT_RUNPATH, lists[2]}},
			"with much":      {ResolutionNote: ptr(noteOf("new", 400)), RunPath: &RunPath{elf.DT_RUNPATH, lists[0]}, Needed: &Needed{Names: []string{"liba.so", "libb.so"}}},
			"a short one":    {ResolutionNote: ptr(stub)},
			"with the stack": {ResolutionNote: ptr(noteOf("new", 3)), ExecStack: ptr(true)},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				b := edit(t, old, c)
				checkNote(t, b, *c.ResolutionNote)
				checkSections(t, parse(t, b))
				if bytes.Contains(b, []byte("11111111-old")) {
					t.Error("the note of before is still in the file")
				}
				if a, b := othersOf(t, parse(t, b)), othersOf(t, parse(t, old)); a != b {
					t.Errorf("loader sees\n%s\nbefore\n%s", a, b)
				}
				if e, err := parse(t, b).plan(c); e != nil || err != nil {
					t.Errorf("the second plan is %v, %v", e, err)
				}
				if e, err := parse(t, b).plan(Change{ResolutionNote: c.ResolutionNote}); e != nil || err != nil {
					t.Errorf("a plan for the same note is %v, %v", e, err)
				}
				// A note that is right for the next run path stays where it is.
				kept := edit(t, b, Change{ResolutionNote: c.ResolutionNote, RunPath: &RunPath{elf.DT_RUNPATH, "/another"}})
				checkNote(t, kept, *c.ResolutionNote)
				gone := edit(t, b, setPath(elf.DT_RUNPATH, "/another"))
				if d := descriptionOf(t, parse(t, gone)); d != "" || bytes.Contains(gone, []byte("nix/store/new")) {
					t.Errorf("a note that contradicts the run path is left: %q", d)
				}
				none := edit(t, b, Change{ResolutionNote: ptr("")})
				if d := descriptionOf(t, parse(t, none)); d != "" || bytes.Contains(none, []byte("nix/store/new")) {
					t.Errorf("%q is left", d)
				}
				if e, err := parse(t, none).plan(Change{ResolutionNote: ptr("")}); e != nil || err != nil {
					t.Errorf("another plan for no note is %v, %v", e, err)
				}
			})
		}
	}
}

// After each write the file says the run path of before and the note of before or none, or
// those of afterwards and the new note or none. An edit that has stopped can be made again.
func TestEveryPrefixOfANoteIsOldOrNew(t *testing.T) {
	for name, l := range noteShapes() {
		first := l.build(t)
		starts := map[string][]byte{"": first, ", after an edit": edit(t, first, Change{ResolutionNote: ptr(noteOf("11111111-old", 30)), RunPath: &RunPath{elf.DT_RUNPATH, "/old/one"}})}
		starts[", after its end"] = edit(t, starts[", after an edit"], Change{ResolutionNote: ptr("")})
		if _, other := shapes[name]; other && len(name)%3 > 0 { // a third of those is enough
			starts = map[string][]byte{"": first}
		}
		for when, old := range starts {
			for what, c := range map[string]Change{
				"shorter": {ResolutionNote: ptr(noteOf("new", 1)), RunPath: &RunPath{elf.DT_RUNPATH, "/new/one"}},
				"longer":  {ResolutionNote: ptr(noteOf("new", 100)), RunPath: &RunPath{elf.DT_RUNPATH, "/new/one:" + lists[2]}},
				"alone":   {ResolutionNote: ptr(noteOf("new", 2))},
				"gone":    {ResolutionNote: ptr(""), RunPath: &RunPath{elf.DT_RUNPATH, "/new/one"}},
			} {
				t.Run(name+when+"/"+what, func(t *testing.T) {
					im := parse(t, old)
					was, view, wasNote := saysOf(t, im), othersOf(t, im), descriptionOf(t, im)
					e, err := im.plan(c)
					if err != nil {
						t.Fatal(err)
					}
					if e == nil {
						t.Skip("nothing to do")
					}
					all := statesOf(t, e)
					want := saysOf(t, parse(t, all[len(all)-1]))
					for n, b := range all {
						state := parse(t, b)
						got, note := saysOf(t, state), descriptionOf(t, state)
						before := got == was && (note == wasNote || note == "")
						after := got == want && (note == *c.ResolutionNote || note == "")
						if !before && !after && !(l.rpath != "" && l.runpath != "") && !strings.Contains(name, "across pages") {
							t.Errorf("after %d of %d writes the file says %+v and %.40q", n, len(e.writes), got, note)
						}
						if note != "" && note != wasNote && note != *c.ResolutionNote {
							t.Errorf("after %d of %d writes the note is %.80q", n, len(e.writes), note)
						}
						if v := othersOf(t, state); strip(v) != strip(view) {
							t.Errorf("after %d of %d writes the loader sees\n%s\nbefore\n%s", n, len(e.writes), v, view)
						}
						if _, err := parse(t, b).plan(c); err != nil {
							t.Errorf("after %d of %d writes, %s: %v", n, len(e.writes), view, err)
							continue
						}
						next := edit(t, b, c)
						if *c.ResolutionNote != "" {
							checkNote(t, next, *c.ResolutionNote)
							checkSections(t, parse(t, next))
						} else if d := descriptionOf(t, parse(t, next)); d != "" {
							t.Errorf("after %d of %d writes and the next edit the note is %.80q", n, len(e.writes), d)
						}
					}
				})
			}
		}
	}
}

// Notes of sizes that go up and down, and away and back, let the file grow no more than the
// largest of them would.
func TestNotesThatAlternateDoNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, l := range noteShapes() {
		t.Run(name, func(t *testing.T) {
			b := l.build(t)
			size := 0
			for i := range 60 {
				n := []int{3, 40, 1, 20, 0, 39, 7}[i%7]
				c := Change{ResolutionNote: ptr("")}
				if n > 0 {
					c.ResolutionNote = ptr(noteOf(fmt.Sprint(i), n))
				}
				if i%3 == 0 {
					c.RunPath = &RunPath{elf.DT_RUNPATH, fmt.Sprintf("/run/%d", i%2)}
				}
				b = edit(t, b, c)
				if i == 14 {
					size = len(b)
				}
			}
			if len(b) != size {
				t.Errorf("%d bytes after 15 edits, %d after 60", size, len(b))
			}
			longest := 0
			for n := 1; n <= 1<<12; n += max(1, n/8) { // each longer than all before
				longest = len(noteOf("x", n))
				b = edit(t, b, Change{ResolutionNote: ptr(noteOf("x", n))})
			}
			if len(b) > size+6*longest {
				t.Errorf("the file has grown by %d bytes for a note of %d", len(b)-size, longest)
			}
		})
	}
}

// What is no note for a loader is refused, and a file that no loader looks for one in.
func TestNotesThatAreRefused(t *testing.T) {
	b := plain().build(t)
	for _, desc := range []string{"a", "a\x00b\x00", "\x00\x00", strings.Repeat("a", maxNoteRoom) + "\x00\x00"} {
		if e, err := parse(t, b).plan(Change{ResolutionNote: &desc}); e != nil || err == nil {
			t.Errorf("%.20q: %v", desc, e)
		}
	}
	loader := edit(t, plain().with(func(l *shape) { l.program, l.needed = false, nil }).build(t), Change{Soname: ptr("ld-linux-x86-64.so.2")})
	if e, err := parse(t, loader).plan(Change{ResolutionNote: ptr(stub)}); e != nil || err == nil {
		t.Errorf("the loader itself: %v", e)
	}
	if e, err := parse(t, loader).plan(Change{ResolutionNote: ptr("")}); e != nil || err != nil {
		t.Errorf("no note for the loader itself: %v, %v", e, err)
	}
}

// A checker that is given a file with the note in somebody else's place says so.
func TestCheckNoticesAMisplacedNote(t *testing.T) {
	desc := noteOf("new", 2)
	for what, damage := range map[string]func(im *image, b []byte){
		"over .dynsym": func(im *image, b []byte) {
			c, _ := im.ResolutionCache()
			d, _ := im.Dyn(elf.DT_SYMTAB)
			off, _ := im.FileOffset(d.Val, c.Size)
			copy(b[off:], b[c.Off:c.Off+c.Size])
			p := im.Progs[c.Prog]
			p.Off, p.Vaddr, p.Paddr = off, d.Val, d.Val
			im.EncodeProg(b[im.Phoff+uint64(c.Prog)*im.PhdrSize():], p)
		},
		"at another address": func(im *image, b []byte) {
			c, _ := im.ResolutionCache()
			p := im.Progs[c.Prog]
			p.Vaddr += 4
			im.EncodeProg(b[im.Phoff+uint64(c.Prog)*im.PhdrSize():], p)
		},
		"with another description": func(im *image, b []byte) {
			c, _ := im.ResolutionCache()
			b[c.Off+noteHead+noteName]++
		},
		"of another type": func(im *image, b []byte) {
			c, _ := im.ResolutionCache()
			b[c.Off+noteTypeAt]++
		},
		"with another section": func(im *image, b []byte) {
			c, _ := im.ResolutionCache()
			s := im.Sections[c.Section]
			s.Addr += 4
			im.EncodeSection(b[im.Shoff+uint64(c.Section)*im.ShdrSize():], s)
		},
	} {
		im := parse(t, plain().build(t))
		e, err := im.plan(Change{ResolutionNote: &desc})
		if err != nil {
			t.Fatal(err)
		}
		all := statesOf(t, e)
		b := all[len(all)-1]
		damage(parse(t, b), b)
		e.writes = []write{{off: 0, data: b}}
		if err := e.verify(Change{ResolutionNote: &desc}); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// patchelf 0.19 takes the header of a note away and leaves its bytes behind the others; there is place for a note all the same,
// and every state of the edit loads. What stands there and was no program header stays.
func TestNoteAfterPatchelf(t *testing.T) {
	tried := 0
	for name, l := range noteShapes() {
		b := edit(t, l.build(t), Change{ResolutionNote: ptr(stub)})
		im := parse(t, b)
		i := im.resolutionProg(t)
		size := int(im.PhdrSize())
		table := b[im.Phoff:im.tableEnd()]
		own := slices.Clone(table[i*size:][:size])
		copy(table[i*size:], table[(i+1)*size:])
		copy(table[len(table)-size:], own)
		im.Order.PutUint16(b[pick(im.Is64(), 56, 44):], uint16(len(im.Progs)-1))
		for j, q := range im.Progs {
			if j != i && q.Type == elf.PT_PHDR {
				at := int(pick(im.Is64(), 32, 16)) + size*(j-int(pick(j > i, 1, 0)))
				im.PutWord(table[at:], q.Filesz-uint64(size))
				im.PutWord(table[at+int(im.WordSize()):], q.Memsz-uint64(size))
			}
		}
		c, err := im.ResolutionCache()
		if err != nil {
			t.Fatal(err)
		}
		clear(b[c.Off : c.Off+c.Size])
		if at := parse(t, b); !slices.EqualFunc(at.Progs, slices.Delete(slices.Clone(im.Progs), i, i+1), func(a, b elfimage.Prog) bool { return a.Type == b.Type }) {
			t.Fatalf("%s: not as patchelf leaves it", name)
		}
		tried++
		c2 := Change{ResolutionNote: ptr(noteOf("a", 9)), RunPath: &RunPath{elf.DT_RUNPATH, lists[2]}}
		checkNote(t, edit(t, b, c2), *c2.ResolutionNote)
		for n, state := range states(t, b, c2) {
			if _, err := loaderView(parse(t, state)); err != nil {
				t.Errorf("%s: after %d writes: %v", name, n, err)
			}
		}
		table[len(table)-size+4] ^= 0x40 // of no type's flags
		if end := parse(t, b).staleEnd(); end != im.tableEnd()-uint64(size) {
			t.Errorf("%s: what was no program header is taken for one", name)
		}
	}
	if tried == 0 {
		t.Error("no shape got a note")
	}
}

// resolutionProg is the index of the note's program header.
func (im *image) resolutionProg(t *testing.T) int {
	c, err := im.ResolutionCache()
	if err != nil || c == nil || c.Prog < 0 {
		t.Fatal("there is no note", err)
	}
	return c.Prog
}

// Of two notes the loader reads the first. Where that changes or goes, the second must not count in its place, at no moment,
// and nothing of it is left.
func TestTwoNotes(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	dir := t.TempDir()
	note := func(section string, align int, dir string) string {
		return fmt.Sprintf(".section %s,\"a\",@note\n.balign %d\n.long 6, 15, %#x\n.asciz \"NixOS\"\n.balign %d\n.asciz \"libc.so.6\", \"?%s\", \"\"\n.balign %d\n",
			section, align, elfimage.CacheType, align, dir, align)
	}
	one, two := "libc.so.6\x00?/o\x00\x00", "libc.so.6\x00?/s\x00\x00"
	for name, text := range map[string]string{
		"in one section":                      note(".note.nixos.ldcache", 4, "/o") + note(".note.nixos.ldcache", 4, "/s"),
		"in two sections":                     note(".note.nixos.ldcache", 4, "/o") + note(".note.other", 4, "/s"),
		"of another alignment":                note(".note.nixos.ldcache", 4, "/o") + note(".note.other", 8, "/s"),
		"three, of which one is of type zero": note(".note.a", 4, "/s") + note(".note.nixos.ldcache", 4, "/o") + note(".note.other", 4, "/s"),
	} {
		if err := os.WriteFile(dir+"/a.s", []byte(".section .note.GNU-stack,\"\",@progbits\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
		compile(t, dir, "-shared", "-nostdlib", "-o", "a.so", "a.s", "-Wl,-rpath,/old")
		b, err := os.ReadFile(dir + "/a.so")
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(b, []byte(two)); strings.HasPrefix(name, "three") {
			clear(b[at-12 : at-8]) // its type
		}
		first := descriptionOf(t, parse(t, b))
		if first != one && first != two {
			t.Fatalf("%s: the first note says %q", name, first)
		}
		for what, c := range map[string]Change{
			"run path":     setPath(elf.DT_RUNPATH, "/new"),
			"needed":       {Needed: &Needed{Names: []string{"libc.so.6"}}},
			"removed":      {ResolutionNote: ptr("")},
			"another":      {ResolutionNote: ptr("libc.so.6\x00?/new\x00\x00"), RunPath: &RunPath{elf.DT_RUNPATH, "/new"}},
			"a longer one": {ResolutionNote: ptr(noteOf("n", 60)), RunPath: &RunPath{elf.DT_RUNPATH, lists[2]}},
		} {
			want := ""
			if c.ResolutionNote != nil {
				want = *c.ResolutionNote
			}
			all := states(t, b, c)
			for n, state := range all {
				if d := descriptionOf(t, parse(t, state)); d != first && d != "" && d != want {
					t.Errorf("%s, %s: after %d of %d writes the note %q counts", name, what, n, len(all)-1, d)
				}
			}
			end := all[len(all)-1]
			if d := descriptionOf(t, parse(t, end)); d != want || bytes.Contains(end, []byte("?/o")) || !strings.HasPrefix(name, "three") && bytes.Contains(end, []byte("?/s")) {
				t.Errorf("%s, %s: the note is %q, and text of the others is left: %v", name, what, d, bytes.Contains(end, []byte("?/s")))
			}
		}
	}
}

// A judge that shares no code with the editor finds nothing that a note changes but itself.
func TestNoteBeforeAJudge(t *testing.T) {
	if testing.Short() {
		t.Skip("runs linkers")
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/main.c", []byte("#include <stdio.h>\nint main(void) { return puts(\"ran\") < 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, flags := range []string{"-pie", "-no-pie", "-shared -fPIC", "-pie -fuse-ld=lld", "-pie -fuse-ld=mold", "-no-pie -fuse-ld=gold", "-shared -fPIC -fuse-ld=mold", "-pie -Wl,-z,nosectionheader"} {
		if out, err := exec.Command("sh", "-c", "gcc -g -o "+dir+"/out "+dir+"/main.c -Wl,-rpath,/old/one "+flags).CombinedOutput(); err != nil {
			t.Logf("%s: not to be had: %.100s", flags, out)
			continue
		}
		b, err := os.ReadFile(dir + "/out")
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []Change{
			{ResolutionNote: ptr(noteOf("a", 3))},
			{ResolutionNote: ptr(noteOf("b", 60)), RunPath: &RunPath{elf.DT_RUNPATH, "/new/one"}},
			{ResolutionNote: ptr(noteOf("c", 2)), RunPath: &RunPath{elf.DT_RUNPATH, "/new/two"}, Interpreter: ptr(storeInterp)},
			{ResolutionNote: ptr(noteOf("c", 2)), RunPath: &RunPath{elf.DT_RUNPATH, "/new/three"}},
			{ResolutionNote: ptr(noteOf("d", 70))},
			{RunPath: &RunPath{elf.DT_RUNPATH, "/new/four"}},
			{ResolutionNote: ptr(noteOf("e", 4)), RunPath: &RunPath{elf.DT_RUNPATH, "/new/five"}},
			{ResolutionNote: ptr("")},
		} {
			want := judge.Expect{Note: c.ResolutionNote, Interpreter: c.Interpreter, Holes: []string{"dynstr", "ldcache"}}
			if c.RunPath != nil {
				want.RunPath = &judge.RunPath{Tag: "RUNPATH", List: c.RunPath.List}
			}
			if strings.Contains(flags, "shared") {
				c.Interpreter, want.Interpreter = nil, nil
			}
			after := edit(t, b, c)
			x, err := judge.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			y, err := judge.Read(after)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range judge.Compare(x, y, want) {
				if !f.Remark {
					t.Errorf("%s, change %d: %v", flags, i, f)
				}
			}
			if bytes.Contains(after, []byte("/nix/store/"+[]string{"-", "a/", "b/", "-", "c/", "d/", "-", "e/"}[i])) {
				t.Errorf("%s, change %d: the note of before is left", flags, i)
			}
			// It also notices that a note is not what was asked for.
			other := want
			other.Note = ptr(noteOf("x", 3))
			if len(judge.Compare(x, y, other)) == 0 {
				t.Errorf("%s, change %d: the judge asks for another note and finds nothing", flags, i)
			}
			b, judged = after, judged+1
		}
	}
	if judged == 0 {
		t.Skip("no linker")
	}
}

// A program with a note runs, and says the note, after each of the tools that come after
// us, alone and in pairs, and after another edit of ours.
func TestToolsKeepTheNote(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a linker and what it makes")
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/main.c", []byte("#include <stdio.h>\nint main(void) { return puts(\"ran\") < 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	patchelf := os.Getenv("PATCHELF")
	if patchelf == "" {
		patchelf = "patchelf"
	}
	tools := []string{"strip FILE", "strip -g FILE", "llvm-strip FILE", "llvm-strip -S FILE", "objcopy FILE", "llvm-objcopy FILE", "eu-strip FILE"}
	desc := noteOf("00000000000000000000000000000000-x", 5)
	for _, flags := range []string{"-pie", "-no-pie", "-pie -fuse-ld=lld", "-pie -fuse-ld=mold", "-no-pie -fuse-ld=gold", "-pie -Wl,-z,norelro"} {
		program := filepath.Join(dir, "program")
		if out, err := exec.Command("sh", "-c", "gcc -o "+program+" "+dir+"/main.c -Wl,-rpath,/old "+flags).CombinedOutput(); err != nil {
			t.Logf("%s: not to be had: %.100s", flags, out)
			continue
		}
		built, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		changed := []byte(edit(t, built, Change{ResolutionNote: &desc, RunPath: &RunPath{elf.DT_RUNPATH, "/new"}}))
		put := func(b []byte) {
			t.Helper()
			os.Remove(program)
			if err := os.WriteFile(program, b, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		run := func(b []byte, what string) {
			t.Helper()
			put(b)
			if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != "ran\n" {
				t.Errorf("%s, %s: %v, %q", flags, what, err, out)
			}
		}
		apply := func(b []byte, tool string) ([]byte, bool) {
			args := strings.Fields(strings.ReplaceAll(tool, "FILE", program))
			put(b)
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			if err != nil {
				t.Logf("%s: %s: %v, %.200s", flags, tool, err, out)
				return nil, false
			}
			after, err := os.ReadFile(program)
			if err != nil {
				t.Fatal(err)
			}
			return after, true
		}
		run(changed, "after the edit")
		for _, one := range tools {
			b, ok := apply(changed, one)
			if !ok {
				continue
			}
			checkNote(t, b, desc)
			run(b, one)
			for _, two := range tools {
				c, ok := apply(b, two)
				if !ok {
					continue
				}
				checkNote(t, c, desc)
				longer := noteOf("longer", 60)
				c = edit(t, c, Change{ResolutionNote: &longer, RunPath: &RunPath{elf.DT_RUNPATH, "/newer"}})
				checkNote(t, c, longer)
				run(c, one+", "+two+", our edit")
			}
			gone := edit(t, b, setPath(elf.DT_RUNPATH, "/none"))
			run(gone, one+", no note")
			for _, two := range tools {
				if c, ok := apply(gone, two); ok {
					c = edit(t, c, Change{ResolutionNote: &desc})
					checkNote(t, c, desc)
					run(c, one+", no note, "+two+", our note")
				}
			}
		}
		out, _ := exec.Command(patchelf, "--version").Output()
		var minor int
		if _, err := fmt.Sscanf(string(out), "patchelf 0.%d", &minor); err != nil || minor < 19 {
			t.Logf("no patchelf 0.19: %q", out)
			continue
		}
		for _, option := range []string{"--set-rpath /by/patchelf", "--add-needed libm.so.6", "--remove-rpath"} {
			b, ok := apply(changed, patchelf+" "+option+" FILE")
			if !ok {
				continue
			}
			if d := descriptionOf(t, parse(t, b)); strings.Contains(option, "rpath") && d != "" { // 0.19 takes it away by the name of its section
				t.Errorf("%s: patchelf %s leaves the note %.40q", flags, option, d)
			}
			run(b, "patchelf "+option)
			for _, two := range tools {
				if c, ok := apply(b, two); ok {
					run(c, "patchelf "+option+", "+two)
					if _, err := parse(t, c).plan(Change{ResolutionNote: &desc}); err != nil {
						os.WriteFile("/tmp/bad.elf", c, 0o755)
						t.Fatalf("%s, %s, %s: %v", flags, option, two, err)
					}
					c = edit(t, c, Change{ResolutionNote: &desc})
					checkNote(t, c, desc)
					run(c, "patchelf "+option+", "+two+", our note")
				}
			}
		}
	}
}
