package elfedit

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// shapes are the kinds of files that differ in where a new run path can go.
var shapes = map[string]shape{
	"program":                   plain(),
	"library":                   plain().with(func(l *shape) { l.program = false }),
	"library without a note":    plain().with(func(l *shape) { l.program, l.note = false, 0 }),
	"program not PIE":           plain().with(func(l *shape) { l.typ = elf.ET_EXEC }),
	"padding after the strings": plain().with(func(l *shape) { l.pad = 3000 }),
	"old run path":              plain().with(func(l *shape) { l.runpath = "/old/one:/old/two" }),
	"DT_RPATH only":             plain().with(func(l *shape) { l.rpath = "/old/rpath" }),
	"both tags":                 plain().with(func(l *shape) { l.rpath, l.runpath = "/old/rpath", "/old/runpath" }),
	"string table first, as patchelf leaves it": plain().with(func(l *shape) {
		l.typ, l.tableFirst, l.runpath = elf.ET_EXEC, true, "/old/one:/old/two"
	}),
	"shared tail":                                           plain().with(func(l *shape) { l.runpath, l.symbols, l.share = "/nix/store/malloc", []string{"x", "malloc"}, true }),
	"no spare entry, DT_RELACOUNT":                          plain().with(func(l *shape) { l.spare, l.relacount = 0, true }),
	"no spare entry at all":                                 plain().with(func(l *shape) { l.spare = 0 }),
	"data after .dynamic, no spare entry":                   plain().with(func(l *shape) { l.spare, l.after = 0, "alive "+strings.Repeat("!", 200) }),
	"no section headers":                                    plain().with(func(l *shape) { l.noSections = true }),
	"no section headers, library":                           plain().with(func(l *shape) { l.noSections, l.program = true, false }),
	"unused program header":                                 plain().with(func(l *shape) { l.null = true }),
	"program that is not PIE with an unused program header": plain().with(func(l *shape) { l.typ, l.null = elf.ET_EXEC, true }),
	"code after the headers":                                plain().with(func(l *shape) { l.typ, l.code = elf.ET_EXEC, true }),
	"code after the headers, .bss":                          plain().with(func(l *shape) { l.code, l.bss, l.after = true, 9000, "alive "+strings.Repeat("!", 200) }),
	"code after the headers, appended data":                 plain().with(func(l *shape) { l.code, l.bss, l.tail = true, 100, "PAYLOAD"+strings.Repeat("x", 5000)+"END" }),
	"code after the headers, no spare entry":                plain().with(func(l *shape) { l.code, l.spare, l.runpath = true, 0, "/old/one:/old/two" }),
	"code after the headers, no section headers, i386": plain().with(func(l *shape) {
		l.code, l.noSections, l.class, l.machine, l.bss = true, true, elf.ELFCLASS32, elf.EM_386, 300
	}),
	".bss":                     plain().with(func(l *shape) { l.bss = 1 << 30 }),
	"2 MiB pages":              plain().with(func(l *shape) { l.align = 2 << 20; l.pad = 1; l.note = 0 }),
	"program that is not PIE":  plain().with(func(l *shape) { l.typ = elf.ET_EXEC }),
	"64 KiB pages":             plain().with(func(l *shape) { l.align = 64 << 10 }),
	"appended data":            plain().with(func(l *shape) { l.tail = "PAYLOAD" + strings.Repeat("x", 5000) + "END" }),
	"i386":                     plain().with(func(l *shape) { l.class, l.machine = elf.ELFCLASS32, elf.EM_386 }),
	"ppc, 32-bit big-endian":   plain().with(func(l *shape) { l.class, l.order, l.machine, l.program = elf.ELFCLASS32, bigOrder, elf.EM_PPC, false }),
	"s390x, 64-bit big-endian": plain().with(func(l *shape) { l.order, l.machine = bigOrder, elf.EM_S390 }),
	".dynamic across pages": plain().with(func(l *shape) {
		l.rpath, l.runpath, l.pathFirst = "/old/rpath", "/old/runpath", true
		for i := range 400 {
			l.needed = append(l.needed, fmt.Sprintf("lib%d.so", i))
		}
	}),
	"mips, no spare entry": plain().with(func(l *shape) {
		l.class, l.order, l.machine, l.spare, l.rldMap = elf.ELFCLASS32, bigOrder, elf.EM_MIPS, 0, true
	}),
	"mips, both tags": plain().with(func(l *shape) {
		l.class, l.order, l.machine, l.rldMap, l.null = elf.ELFCLASS32, bigOrder, elf.EM_MIPS, true, true
		l.rpath, l.runpath = "/old/rpath", "/old/runpath"
	}),
}

// lists are run paths that fit into padding, need a segment, and need a large one.
var lists = []string{
	"/run/opengl-driver/lib",
	"/run/opengl-driver/lib:" + strings.Repeat("/nix/store/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-x/lib:", 6) + "$ORIGIN",
	strings.Repeat("/a/directory:", 3000) + "/end",
}

// loaderView is everything that the loader reads through program headers and
// dynamic entries, but for the run path: what an edit must not change.
func loaderView(im *image) (string, error) {
	var b strings.Builder
	interp, err := im.Interpreter()
	if err != nil {
		return "", err
	}
	needed, err := im.Needed()
	if err != nil {
		return "", err
	}
	fmt.Fprintln(&b, interp)
	for _, name := range needed {
		fmt.Fprintln(&b, "needed", name)
	}
	for _, p := range im.Progs {
		switch p.Type {
		case elf.PT_GNU_STACK, elf.PT_GNU_RELRO, elf.PT_TLS, elf.PT_DYNAMIC:
			fmt.Fprintln(&b, p.Type, p.Flags)
		}
		if p.Type == elf.PT_NOTE {
			note, ok := im.Memory(p.Vaddr, p.Filesz)
			fmt.Fprintf(&b, "note %x %v\n", note, ok)
		}
	}
	for _, p := range im.Progs { // what comes after .dynamic
		if p.Type == elf.PT_LOAD && p.Flags&(elf.PF_R|elf.PF_W|elf.PF_X) == elf.PF_R|elf.PF_W {
			data, ok := im.Memory(p.Vaddr, p.Filesz)
			if i := bytes.Index(data, []byte("alive ")); i >= 0 {
				alive, _, _ := bytes.Cut(data[i:], []byte{0})
				fmt.Fprintf(&b, "data %s %v\n", alive, ok)
			}
			break
		}
	}
	if d, ok := im.Dyn(elf.DT_HASH); ok {
		hw := im.HashWord()
		head, ok := im.Memory(d.Val, 2*hw)
		if !ok {
			return "", fmt.Errorf("DT_HASH in no segment")
		}
		hash, ok := im.Memory(d.Val, (2+im.Uint(head, hw)+im.Uint(head[hw:], hw))*hw)
		fmt.Fprintf(&b, "hash %x %v\n", hash, ok)
	}
	for i, d := range im.Dynamic {
		if d.Tag == elf.DT_MIPS_RLD_MAP_REL {
			fmt.Fprintf(&b, "rld map %#x\n", uint32(im.Prog(elf.PT_DYNAMIC).Vaddr+uint64(i)*im.DynSize()+d.Val))
		}
	}
	off, n, known := im.DynSymbols()
	if !known {
		return "", fmt.Errorf("symbols unknown")
	}
	err = im.EachPiece(off, n, im.SymSize(), func(_ uint64, symbols []byte) {
		for ; len(symbols) > 0; symbols = symbols[im.SymSize():] {
			s, err := im.DynString(elfimage.Dyn{Val: uint64(im.Order.Uint32(symbols))})
			fmt.Fprintln(&b, "symbol", s, err)
		}
	})
	return b.String(), err
}

func mustView(t *testing.T, im *image) string {
	t.Helper()
	v, err := loaderView(im)
	if err != nil {
		t.Fatalf("loader view: %v", err)
	}
	return v
}

// checkSections compares the section headers with what the loader sees.
func checkSections(t *testing.T, im *image) {
	t.Helper()
	for i, s := range im.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || !s.InFile() {
			continue
		}
		if off, ok := im.FileOffset(s.Addr, s.Size); !ok || off != s.Off {
			t.Errorf("section %s: address %#x maps to offset %#x (%v), header says %#x", im.SectionName(i), s.Addr, off, ok, s.Off)
		}
		if s.Type == elf.SHT_DYNAMIC && s.Off != im.DynOff {
			t.Errorf(".dynamic is at %#x, its header says %#x", im.DynOff, s.Off)
		}
	}
	for i, s := range im.Sections {
		for _, o := range im.Sections[:i] {
			if s.Flags&elf.SHF_ALLOC != 0 && s.HasBytes() && o.HasBytes() && s.Off < o.Off+o.Size && o.Off < s.Off+s.Size {
				t.Errorf("section %s at %#x overlaps the one at %#x", im.SectionName(i), s.Off, o.Off)
			}
		}
	}
	if i := im.stringSection(); len(im.Sections) > 0 && (i < 0 || im.Sections[i].Size != im.StrSize) {
		t.Errorf("no section header says what DT_STRTAB and DT_STRSZ say")
	}
	for _, p := range im.Progs {
		if p.Type == elf.PT_PHDR && (p.Filesz != uint64(len(im.Progs))*im.PhdrSize() || p.Off != im.Phoff) {
			t.Errorf("PT_PHDR says %d bytes at %#x", p.Filesz, p.Off)
		}
	}
}

func TestEditReadsBack(t *testing.T) {
	for name, l := range shapes {
		for i, list := range lists {
			t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) {
				old := l.build(t)
				before := mustView(t, parse(t, old))
				for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
					im := parse(t, edit(t, old, setPath(tag, list)))
					if got, now, err := im.RunPath(); got != tag || now != list || err != nil {
						t.Errorf("run path is %v %.60q, %v", got, now, err)
					}
					if _, other, _ := im.Shadowed(); other {
						t.Error("DT_RPATH is left beside DT_RUNPATH")
					}
					if after := mustView(t, im); after != before {
						t.Errorf("loader sees\n%s\nbefore\n%s", after, before)
					}
					checkSections(t, im)
					if im.Phoff != im.EhdrSize() {
						t.Errorf("program header table moved to %#x", im.Phoff)
					}
				}
			})
		}
	}
}

// A process killed between two writes leaves a file that loads as it did or as it will.
func TestEveryPrefixOfTheWritesLoads(t *testing.T) {
	states := 0
	for name, l := range shapes {
		for i, list := range lists {
			t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) {
				for _, old := range [][]byte{l.build(t), edit(t, l.build(t), setPath(elf.DT_RUNPATH, "/first/edit:/of/this/file"))} {
					states += checkPrefixes(t, old, list)
					states += checkPrefixes(t, old, "")
				}
			})
		}
	}
	if states < 600 {
		t.Errorf("only %d states", states)
	}
}

func checkPrefixes(t *testing.T, old []byte, list string) (states int) {
	t.Helper()
	im := parse(t, old)
	before := mustView(t, im)
	_, was, _ := im.RunPath()
	e, err := im.plan(setPath(elf.DT_RUNPATH, list))
	if err != nil {
		t.Fatal(err)
	}
	if e == nil { // nothing to remove
		return 0
	}
	for n, b := range statesOf(t, e) {
		state := parse(t, b)
		view, err := loaderView(state)
		// A note may be lent for the moment; nothing else may differ.
		if strip(view) != strip(before) || err != nil {
			t.Errorf("after %d of %d writes the loader sees\n%s(%v)\nbefore\n%s", n, len(e.writes), view, err, before)
		}
		if _, now, err := state.RunPath(); err != nil || now != was && now != list {
			t.Errorf("after %d of %d writes the run path is %.60q, %v", n, len(e.writes), now, err)
		}
		checkNextEdit(t, b, fmt.Sprintf("after %d of %d writes and the next edit", n, len(e.writes)))
		states++
	}
	return states
}

// checkNextEdit edits a file again: it works, for strip too, or is refused.
func checkNextEdit(t *testing.T, b []byte, when string) {
	t.Helper()
	f := &memFile{b: bytes.Clone(b)}
	im := parse(t, b)
	e, err := im.plan(setPath(elf.DT_RUNPATH, "/next/edit"))
	if err != nil {
		if !strings.Contains(err.Error(), "no room for what is new") {
			t.Errorf("%s: %v", when, err)
		}
		return
	}
	if err := e.Apply(f); err != nil {
		t.Fatal(err)
	}
	after := parse(t, f.b)
	for i, s := range after.Sections {
		if after.SectionName(i) == ".dynstr" && (s.Addr != after.StrAddr || s.Size < after.StrSize) {
			t.Errorf("%s: the string table is %d bytes at %#x, its section header says %d at %#x", when, after.StrSize, after.StrAddr, s.Size, s.Addr)
		}
	}
}

// strip drops from a loader view what may differ for a moment: notes, whose
// program header may be lent, and a name that occurs twice while entries move up.
func strip(view string) string {
	var out []string
	for _, line := range strings.Split(view, "\n") {
		twice := strings.HasPrefix(line, "needed ") && len(out) > 0 && out[len(out)-1] == line
		if !strings.HasPrefix(line, "note ") && !twice {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// A write that fails (a full disk) while the file grows leaves every byte as it was; a later one is told as damage.
func TestFailedWrites(t *testing.T) {
	back, damaged := 0, 0
	for name, l := range shapes {
		for i, list := range lists {
			old := l.build(t)
			for try := 2; ; try++ {
				f := &memFile{b: bytes.Clone(old), fail: try / 2, short: try%2 == 0}
				im, err := parseFile(f, int64(len(old)))
				if err != nil {
					t.Fatal(err)
				}
				e, err := im.plan(setPath(elf.DT_RUNPATH, list))
				if err != nil {
					t.Fatal(err)
				}
				if err := e.Apply(f); err == nil {
					if f.writes >= f.fail {
						t.Fatalf("%s/%d: write %d failed and Apply did not", name, i, f.fail)
					}
					break
				} else if same := bytes.Equal(f.b, old); same == errors.As(err, new(*DamagedError)) {
					t.Errorf("%s/%d: write %d failed: %v, and the file is as it was: %v", name, i, f.fail, err, same)
				}
				switch same := bytes.Equal(f.b, old); {
				case same:
					back++
				case f.calls[f.fail-1].off >= uint64(len(old)):
					t.Errorf("%s/%d: write %d, behind the end, failed and the file is another one", name, i, f.fail)
				default:
					damaged++
				}
			}
		}
	}
	if back < 20 || damaged < 20 {
		t.Errorf("%d failures while the file grew, %d later ones", back, damaged)
	}
}

func TestNothingToDoIsNoEdit(t *testing.T) {
	for name, l := range shapes {
		b := edit(t, l.build(t), setPath(elf.DT_RUNPATH, lists[1]))
		if e, err := parse(t, b).plan(setPath(elf.DT_RUNPATH, lists[1])); e != nil || err != nil {
			t.Errorf("%s: second plan is %v, %v", name, e, err)
		}
		b = edit(t, b, setPath(elf.DT_NULL, ""))
		if e, err := parse(t, b).plan(setPath(elf.DT_NULL, "")); e != nil || err != nil {
			t.Errorf("%s: second removal is %v, %v", name, e, err)
		}
	}
}

func TestRemove(t *testing.T) {
	for name, l := range shapes {
		old := l.build(t)
		before := mustView(t, parse(t, old))
		for _, b := range [][]byte{edit(t, old, setPath(elf.DT_NULL, "")), edit(t, edit(t, old, setPath(elf.DT_RUNPATH, lists[1])), setPath(elf.DT_RUNPATH, ""))} {
			im := parse(t, b)
			if tag, list, err := im.RunPath(); tag != 0 || err != nil {
				t.Errorf("%s: run path is %v %q, %v", name, tag, list, err)
			}
			if mustView(t, im) != before {
				t.Errorf("%s: the loader sees something else", name)
			}
			checkSections(t, im)
		}
	}
}

// patchelf 370: a file edited a thousand times is no larger than one edited once.
func TestThousandEditsOfOneLength(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, l := range shapes {
		b := edit(t, l.build(t), setPath(elf.DT_RUNPATH, fmt.Sprintf("/%060d", 0)))
		size := len(b)
		for i := 1; i < 1000; i++ {
			b = edit(t, b, setPath(elf.DT_RUNPATH, fmt.Sprintf("/%060d", i)))
		}
		if len(b) != size {
			t.Errorf("%s: %d bytes after one edit, %d after a thousand", name, size, len(b))
		}
	}
}

// patchelf 96: alternating edits. With mixed lengths a file grows by a constant
// factor of the longest list and what the file must copy, not with the edits.
func TestMixedLengthsGrowByAConstantFactor(t *testing.T) {
	for name, l := range shapes {
		rng := rand.New(rand.NewPCG(1, 2))
		b := l.build(t)
		start, longest := len(b), 0
		for range 600 {
			list := "/" + strings.Repeat("y", rng.IntN(2000))
			longest = max(longest, len(list))
			b = edit(t, b, setPath(elf.DT_RUNPATH, list))
		}
		im := parse(t, b)
		if _, list, _ := im.RunPath(); list == "" {
			t.Errorf("%s: no run path", name)
		}
		if limit := 3*start + 12*longest + 16<<10; len(b) > limit {
			t.Errorf("%s: grew from %d to %d bytes, limit %d", name, start, len(b), limit)
		}
	}
}

// The store path of a removed entry must not stay: Nix scans for its hash.
func TestOldRunPathIsScrubbed(t *testing.T) {
	const secret = "/nix/store/00000000000000000000000000000000-cuda_cudart-stubs/lib"
	for name, l := range shapes {
		if l.share {
			continue
		}
		for _, set := range []func(*shape){func(l *shape) { l.runpath = secret }, func(l *shape) { l.rpath, l.runpath = secret, "" }} {
			for i, list := range append(lists, "") {
				b := edit(t, l.with(set).build(t), setPath(elf.DT_RUNPATH, list))
				if bytes.Contains(b, []byte("0000000000000000")) {
					t.Errorf("%s/%d: the old entry is still in the file", name, i)
				}
				b = edit(t, b, setPath(elf.DT_RUNPATH, secret+":/x"))
				b = edit(t, b, setPath(elf.DT_RUNPATH, "/short"))
				if bytes.Contains(b, []byte("0000000000000000")) {
					t.Errorf("%s/%d: the old entry is still in the file after a later edit", name, i)
				}
			}
		}
	}
}

// patchelf 0.15 and newer, and BOLT, move the program headers after the string table.
func TestOldRunPathIsScrubbedBeforeTheHeaders(t *testing.T) {
	const secret = "/nix/store/00000000000000000000000000000000-cuda_cudart-stubs/lib"
	b := plain().with(func(l *shape) { l.runpath = secret }).build(t)
	im := parse(t, b)
	phoff, w := alignUp(uint64(len(b)), 8), im.WordSize()
	b = append(b, make([]byte, phoff+1024-uint64(len(b)))...) // with room for more
	copy(b[phoff:], b[im.Phoff:][:uint64(len(im.Progs))*im.PhdrSize()])
	im.PutWord(b[24+w:], phoff)
	view := func() []string { // in any order: the header that was lent for a moment is the last one afterwards
		v := strings.Split(mustView(t, parse(t, b)), "\n")
		slices.Sort(v)
		return v
	}
	before := view()
	b = edit(t, b, setPath(elf.DT_RUNPATH, lists[1]))
	if after := view(); !slices.Equal(after, before) {
		t.Errorf("the loader sees\n%q\nbefore\n%q", after, before)
	}
	if bytes.Contains(b, []byte("0000000000000000")) {
		t.Error("the old entry is still in the file")
	}
}

// A copy of the string table does not hold what goes: no write of its own takes that out again.
func TestCopyLacksWhatGoes(t *testing.T) {
	const secret = "/nix/store/00000000000000000000000000000000-cuda_cudart-stubs/lib"
	b := plain().with(func(l *shape) { l.runpath = secret }).build(t)
	for _, w := range planned(t, b, setPath(elf.DT_RUNPATH, strings.Repeat("/long", 500))).writes {
		if bytes.Contains(w.data, []byte(secret)) {
			t.Errorf("%d bytes at %#x hold the old run path", w.len(), w.off)
		}
	}
}

// BOLT leaves both: program headers at the end, and several notes, which are told apart by their order.
func TestNotesKeepTheirOrderBehindTheFile(t *testing.T) {
	b := plain().with(func(l *shape) { l.runpath = lists[0] }).build(t)
	im := parse(t, b)
	note := *im.Prog(elf.PT_NOTE)
	second := elfimage.Prog{Type: elf.PT_NOTE, Flags: note.Flags, Off: im.DynOff, Vaddr: im.Prog(elf.PT_DYNAMIC).Vaddr, Filesz: 16, Memsz: 16, Align: note.Align}
	second.Paddr = second.Vaddr
	phoff, w := alignUp(uint64(len(b)), 8), im.WordSize()
	b = append(b, make([]byte, phoff+1024-uint64(len(b)))...) // with room for more
	for i, p := range append(slices.Clone(im.Progs), second) {
		im.EncodeProg(b[phoff+uint64(i)*im.PhdrSize():], p)
	}
	im.PutWord(b[24+w:], phoff)
	im.Order.PutUint16(b[24+3*w+8:], uint16(len(im.Progs)+1))
	b = edit(t, b, setPath(elf.DT_RUNPATH, lists[1]))
	var sizes []uint64
	for _, p := range parse(t, b).Progs {
		if p.Type == elf.PT_NOTE {
			sizes = append(sizes, p.Filesz)
		}
	}
	if want := []uint64{note.Filesz, second.Filesz}; !slices.Equal(sizes, want) {
		t.Errorf("notes of %d bytes, before of %d", sizes, want)
	}
}

// "bun build --compile" lets the segment with its section .bun grow over what follows it in the file: an edit leaves that
// segment the last one, where other programs get one more.
func TestSegmentThatAnotherToolLetsGrowStaysLast(t *testing.T) {
	for _, name := range []string{".other", ".bun"} {
		b := plain().with(func(l *shape) { l.after = "12345678" }).build(t)
		im := parse(t, b)
		dynamic := im.Prog(elf.PT_DYNAMIC)
		end := dynamic.Off + dynamic.Filesz
		b = addSection(im, b, elfimage.Section{Type: elf.SHT_PROGBITS}, name+"\x00")
		im = parse(t, b)
		last := len(im.Sections) - 1
		names := im.Sections[last]
		im.EncodeSection(b[im.Shoff+uint64(last)*im.ShdrSize():], elfimage.Section{Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE,
			NameOff: uint32(names.Off - im.Sections[im.Shstrndx].Off), Off: end, Addr: dynamic.Vaddr + dynamic.Filesz, Size: 8, Addralign: 1})
		table := im.Sections[im.Shstrndx]
		table.Size = names.Off + names.Size - table.Off
		im.EncodeSection(b[im.Shoff+uint64(im.Shstrndx)*im.ShdrSize():], table)
		before := parse(t, b)
		if got := before.SectionName(last); got != name {
			t.Fatalf("the section is called %q", got)
		}
		for _, list := range []string{strings.Repeat("/long", 8000), strings.Repeat("/longer", 9000), "/short"} {
			b = edit(t, b, setPath(elf.DT_RUNPATH, list))
			after := parse(t, b)
			if grown := loads(after) == loads(before); grown != (name == ".bun") {
				t.Errorf("%s: %d segments, before %d", name, loads(after), loads(before))
			}
			if s := after.Sections[last]; string(b[s.Off:][:s.Size]) != "12345678" {
				t.Errorf("%s: its bytes are %q", name, b[s.Off:][:s.Size])
			}
		}
	}
}

// LIEF, and so postject's single executables of Node.js, lets the section header of .dynamic say more than PT_DYNAMIC.
// Where .dynamic moves it says what PT_DYNAMIC does: more would overlap what follows.
func TestSectionOfMovedDynamicEndsWithIt(t *testing.T) {
	b := plain().with(func(l *shape) { l.spare = 0 }).build(t)
	im := parse(t, b)
	for i, s := range im.Sections {
		if s.Type == elf.SHT_DYNAMIC {
			s.Size += 0x100
			im.EncodeSection(b[im.Shoff+uint64(i)*im.ShdrSize():], s)
		}
	}
	after := parse(t, edit(t, b, Change{RunPath: &RunPath{elf.DT_RUNPATH, lists[len(lists)-1]}, Soname: ptr("libnamed.so")}))
	if after.DynOff == im.DynOff {
		t.Fatal(".dynamic has not moved: the test tests nothing")
	}
	for _, s := range after.Sections {
		if dynamic := after.Prog(elf.PT_DYNAMIC); s.Type == elf.SHT_DYNAMIC && (s.Off != dynamic.Off || s.Size != dynamic.Filesz) {
			t.Errorf("the section is %d bytes at %#x, PT_DYNAMIC %d bytes at %#x", s.Size, s.Off, dynamic.Filesz, dynamic.Off)
		}
	}
}

// patchelf 162: symbols can share their names' bytes with the tail of the run path.
func TestSharedTailSurvives(t *testing.T) {
	l := shapes["shared tail"]
	for i, list := range append(lists, "") {
		b := edit(t, l.build(t), setPath(elf.DT_RUNPATH, list))
		if v := mustView(t, parse(t, b)); !strings.Contains(v, "symbol malloc <nil>") {
			t.Errorf("%d: the loader sees\n%s", i, v)
		}
		if bytes.Contains(b, []byte("/nix/store/m")) {
			t.Errorf("%d: the part of the old run path that nothing shares is still there", i)
		}
	}
}

// Self-extracting archives find their payload from the start or from the end.
func TestAppendedDataIsFoundBothWays(t *testing.T) {
	l := shapes["appended data"]
	old := l.build(t)
	at := len(old) - len(l.tail)
	b := old
	for _, list := range []string{lists[0], lists[1], lists[2], lists[2] + "/more", lists[1], strings.Repeat("/z", 40000)} {
		b = edit(t, b, setPath(elf.DT_RUNPATH, list))
		if string(b[at:][:len(l.tail)]) != l.tail {
			t.Errorf("%.40q: the payload is not at its old offset", list)
		}
		if string(b[len(b)-len(l.tail):]) != l.tail {
			t.Errorf("%.40q: the payload is not at the end", list)
		}
		// Readers such as AppImage's take the end of the section headers for the start.
		if im := parse(t, b); im.imageEnd() != uint64(len(b)-len(l.tail)) {
			t.Errorf("%.40q: the image ends at %#x", list, im.imageEnd())
		}
	}
}

// The one copy that an edit makes of appended data has room before it for the next edits.
func TestAppendedDataIsCopiedOnce(t *testing.T) {
	for _, name := range []string{"appended data", "code after the headers, appended data"} {
		l := shapes[name]
		l.tail = "PAYLOAD" + strings.Repeat("x", 4<<20) + "END"
		b := l.build(t)
		most := len(b) + len(l.tail) + 200<<10
		for n := 10; n < 10_000; n += n / 3 {
			b = edit(t, b, setPath(elf.DT_RUNPATH, strings.Repeat("/z", n)))
		}
		if len(b) > most {
			t.Errorf("%s: the file of %d bytes is not to have more than %d", name, len(b), most)
		}
	}
}

// The segment of an earlier edit grows in place, and what was appended after it
// must not be where it grows to.
func TestDataAppendedAfterAnEditIsFoundBothWays(t *testing.T) {
	const payload = "PAYLOAD of a later packer END"
	b := edit(t, plain().build(t), setPath(elf.DT_RUNPATH, lists[1]))
	at := len(b)
	b = append(b, payload...)
	for n := 1; n < 20000; n *= 3 {
		b = edit(t, b, setPath(elf.DT_RUNPATH, strings.Repeat("/n", n)))
		if string(b[at:][:len(payload)]) != payload {
			t.Errorf("%d: the payload is not at its old offset", n)
		}
		if string(b[len(b)-len(payload):]) != payload {
			t.Errorf("%d: the payload is not at the end", n)
		}
	}
	if len(b) > 10*40000 {
		t.Errorf("grew to %d bytes", len(b))
	}
}

// strip puts .comment and .symtab after our segment, which then does not end the
// file any more; they move on when it grows.
func TestSectionsAfterOurSegmentMoveOn(t *testing.T) {
	for _, name := range []string{"library", "code after the headers", "mips, both tags", "appended data"} {
		b := edit(t, shapes[name].build(t), setPath(elf.DT_RUNPATH, lists[1]))
		b = addSection(parse(t, b), b, elfimage.Section{Type: elf.SHT_NOBITS, Flags: elf.SHF_ALLOC, Addr: 1 << 30, Size: 8}, "")
		b = addSection(parse(t, b), b, elfimage.Section{Type: elf.SHT_PROGBITS, Addralign: 1}, ".comment of a strip")
		before := parse(t, b)
		checkPrefixes(t, b, lists[2])
		b = edit(t, b, setPath(elf.DT_RUNPATH, lists[2]))
		after := parse(t, b)
		if shapes[name].tail != "" { // which by now no header names, nor is it at the end
			if !bytes.Contains(b, []byte(shapes[name].tail)) {
				t.Errorf("%s: it is gone", name)
			}
			continue
		}
		if len(after.Progs) != len(before.Progs) {
			t.Errorf("%s: %d program headers became %d", name, len(before.Progs), len(after.Progs))
		}
		if mustView(t, after) != mustView(t, before) {
			t.Errorf("%s: the loader sees something else", name)
		}
		checkSections(t, after)
		if s := after.Sections[len(after.Sections)-1]; string(b[s.Off:][:s.Size]) != ".comment of a strip" {
			t.Errorf("%s: the section became %q", name, b[s.Off:][:s.Size])
		}
		own := after.Segment(after.StrAddr, after.StrSize)
		if s := after.Sections[len(after.Sections)-2]; s.Off < own.Off+own.Filesz {
			t.Errorf("%s: a section without bytes at %#x seems to be in the segment of the strings", name, s.Off)
		}
	}
}

// addSection adds a section at the end of the file.
func addSection(im *image, b []byte, s elfimage.Section, content string) []byte {
	clear(b[im.Shoff:][:uint64(len(im.Sections))*im.ShdrSize()]) // what strip leaves out
	s.Off, s.Size = uint64(len(b)), max(s.Size, uint64(len(content)))
	b = append(b, content...)
	shoff := uint64(len(b))
	for _, s := range append(slices.Clone(im.Sections), s) {
		h := make([]byte, im.ShdrSize())
		im.EncodeSection(h, s)
		b = append(b, h...)
	}
	w := im.WordSize()
	im.PutWord(b[24+2*w:], shoff)
	im.Order.PutUint16(b[24+3*w+12:], uint16(len(im.Sections)+1))
	return b
}

// patchelf rounds its segment up: the string table ends it but for some zeros.
func TestSegmentEndsWithZeros(t *testing.T) {
	for zeros, grows := range map[int]bool{0: true, 4: true, 16: true, 17: false} {
		b := edit(t, shapes["library"].build(t), setPath(elf.DT_RUNPATH, lists[1]))
		im := parse(t, b)
		end := im.StrOff + im.StrSize
		b = slices.Insert(b, int(end), make([]byte, zeros)...)
		im.PutWord(b[24+2*im.WordSize():], im.Shoff+uint64(zeros))
		names := im.Sections[im.Shstrndx]
		names.Off += uint64(zeros)
		im.EncodeSection(b[im.Shoff+uint64(zeros)+uint64(im.Shstrndx)*im.ShdrSize():], names)
		reprog(im, b, *im.Segment(im.StrAddr, im.StrSize), func(p *elfimage.Prog) { p.Filesz, p.Memsz = p.Filesz+uint64(zeros), p.Memsz+uint64(zeros) })
		before := parse(t, b)
		if states := checkPrefixes(t, b, lists[2]); states == 0 {
			t.Errorf("%d zeros: no state", zeros)
		}
		after := parse(t, edit(t, b, setPath(elf.DT_RUNPATH, lists[2])))
		if got := len(after.Progs) == len(before.Progs); got != grows {
			t.Errorf("%d zeros: %d program headers became %d", zeros, len(before.Progs), len(after.Progs))
		}
		if mustView(t, after) != mustView(t, before) {
			t.Errorf("%d zeros: the loader sees something else", zeros)
		}
		checkSections(t, after)
		if zeros == 4 { // not zeros any more
			b[end+2] = 1
			if ends, err := (&planner{im: parse(t, b)}).endsSegment(before.Segment(before.StrAddr, before.StrSize)); ends || err != nil {
				t.Errorf("data after the string table: %v, %v", ends, err)
			}
		}
	}
}

// strip makes of a PT_LOAD with no section in it one that does not load.
func TestSegmentIsNotLeftEmpty(t *testing.T) {
	im := newImage(&elfimage.Image{StrAddr: 0x3000, Progs: []elfimage.Prog{
		{Type: elf.PT_LOAD, Flags: elf.PF_R, Vaddr: 0x1000, Filesz: 0x100, Memsz: 0x100},
		{Type: elf.PT_LOAD, Flags: elf.PF_R, Vaddr: 0x3000, Filesz: 0x100, Memsz: 0x100},
	}, Sections: []elfimage.Section{{}, {Type: elf.SHT_STRTAB, Flags: elf.SHF_ALLOC, Addr: 0x3000, Size: 0x80},
		{Type: elf.SHT_NOTE, Flags: elf.SHF_ALLOC, Addr: 0x3080, Size: 0x40}}})
	own := &im.Progs[1]
	if segs := (&planner{im: im}).readOnlySegments(own); len(segs) != 2 {
		t.Errorf("with a note beside the strings there are %d segments", len(segs))
	}
	im.Sections[2].Addr = 0x1000
	if segs := (&planner{im: im}).readOnlySegments(own); len(segs) != 1 || segs[0] != own {
		t.Errorf("with nothing beside the strings there are %d segments", len(segs))
	}
}

// patchelf pulls everything up to the string table, or to a section that cannot
// move, to the front of a program that is not PIE. There must be one after the
// program headers, wherever the table went.
func TestHoleHasASection(t *testing.T) {
	exec := plain().with(func(l *shape) { l.typ = elf.ET_EXEC })
	for name, c := range map[string]struct {
		shape
		wanted bool
	}{
		"program":                {exec, true},
		"32 bits, big-endian":    {exec.with(func(l *shape) { l.class, l.order, l.machine = elf.ELFCLASS32, bigOrder, elf.EM_PPC }), true},
		"an unused header":       {exec.with(func(l *shape) { l.null = true }), true},
		"padding":                {exec.with(func(l *shape) { l.tableFirst, l.pad = true, 400000 }), true},
		"the string table first": {exec.with(func(l *shape) { l.tableFirst = true }), true},
		"code after the headers": {exec.with(func(l *shape) { l.code, l.null = true, true }), false},
		"PIE":                    {plain(), false},
		"no section headers":     {exec.with(func(l *shape) { l.noSections = true }), false},
	} {
		old := c.build(t)
		before := parse(t, old)
		// Twice into a new segment: what is appended must not be in the way of a longer one.
		b := edit(t, old, setPath(elf.DT_RUNPATH, lists[2]))
		b = append(b, strings.Repeat("appended ", 10000)...)
		checkPrefixes(t, b, strings.Repeat(lists[2]+":", 5)+"/last")
		again := edit(t, b, setPath(elf.DT_RUNPATH, strings.Repeat(lists[2]+":", 5)+"/last"))
		if n := loads(parse(t, again)); n != loads(parse(t, b))+1 {
			t.Errorf("%s: %d segments, none of them new", name, n)
		}
		for when, b := range map[string][]byte{"once": b, "again": again} {
			im := parse(t, b)
			checkSections(t, im)
			i := im.anchorSection()
			wanted := len(before.Sections) + int(pick(c.wanted, 1, 0))
			if len(before.Sections) > 0 { // each new segment has one
				wanted += loads(im) - loads(before)
			}
			if (i >= 0) != c.wanted || len(im.Sections) != wanted {
				t.Errorf("%s, %s: section %d of %d instead of %d", name, when, i, len(im.Sections), wanted)
				continue
			}
			if i < 0 {
				continue
			}
			s := im.Sections[i]
			end := im.Phoff + uint64(len(im.Progs))*im.PhdrSize()
			if off, ok := im.FileOffset(s.Addr, s.Size); s.Off < end || !ok || off != s.Off {
				t.Errorf("%s, %s: address %#x, offset %#x, and the program headers end at %#x", name, when, s.Addr, s.Off, end)
			}
			if len(bytes.Trim(b[s.Off:s.Off+s.Size], "\x00")) > 0 {
				t.Errorf("%s, %s: the hole is not empty", name, when)
			}
			for j := range im.Sections {
				o := &im.Sections[j]
				if j != i && o.HasBytes() && o.Off < s.Off+s.Size && o.Off+o.Size > s.Off {
					t.Errorf("%s, %s: section %q is in the hole", name, when, im.SectionName(j))
				}
			}
		}
	}
}

// What no header names after the program headers may be somebody's: patchelf 0.19 leaves a copy of the file's beginning there, for .tbss.
// A section over it would say that it is free.
func TestHoleIsDead(t *testing.T) {
	b := plain().with(func(l *shape) {
		l.typ, l.versions, l.null = elf.ET_EXEC, true, true
		for i := range 50 {
			l.symbols = append(l.symbols, fmt.Sprint("symbol", i))
		}
	}).build(t)
	im := parse(t, b)
	versym, _ := im.Dyn(elf.DT_VERSYM)
	im.encodeDyn(b[versym.Off:], elfimage.Dyn{Tag: elf.DT_DEBUG})
	i := slices.IndexFunc(im.Sections, func(s elfimage.Section) bool { return s.Type == elf.SHT_GNU_VERSYM })
	s := im.Sections[i]
	s.Type, s.Flags = elf.SHT_NOBITS, elf.SHF_ALLOC|elf.SHF_TLS
	im.EncodeSection(b[im.Shoff+uint64(i)*im.ShdrSize():], s)
	for _, list := range []string{lists[2], strings.Repeat(lists[2]+":", 5) + "/last"} {
		b = edit(t, b, setPath(elf.DT_RUNPATH, list))
		im := parse(t, b)
		i := im.anchorSection()
		if i < 0 {
			t.Fatal("the hole has no section")
		}
		if s := im.Sections[i]; !isZero(b[s.Off : s.Off+s.Size]) {
			t.Errorf("a section of zeros is over %#x, where %x is", s.Off, b[s.Off:s.Off+s.Size])
		}
		if got := b[s.Off : s.Off+s.Size]; got[0] != 1 || isZero(got) {
			t.Errorf("the data has become %x", got)
		}
	}
}

func loads(im *image) (n int) {
	for i := range im.Progs {
		if im.Progs[i].Type == elf.PT_LOAD {
			n++
		}
	}
	return n
}

// patchelf 0.18 leaves a segment whose address and offset are congruent modulo a
// page and not modulo its p_align. It loads, so it can be edited.
func TestSegmentIsCongruentModuloAPage(t *testing.T) {
	b := plain().build(t)
	im := parse(t, b)
	var data elfimage.Prog
	for _, p := range im.Progs {
		if p.Type == elf.PT_LOAD {
			data = p
		}
	}
	reprog(im, b, data, func(p *elfimage.Prog) { p.Align = 64 << 10 })
	if (data.Vaddr-data.Off)%(64<<10) == 0 {
		t.Fatal("the segment is congruent")
	}
	for _, list := range lists {
		checkPrefixes(t, b, list)
		after := parse(t, edit(t, b, setPath(elf.DT_RUNPATH, list)))
		if mustView(t, after) != mustView(t, parse(t, b)) {
			t.Errorf("%.40q: the loader sees something else", list)
		}
		last := after.Segment(after.StrAddr, after.StrSize)
		if last.Align > 1 && (last.Vaddr-last.Off)%last.Align != 0 {
			t.Errorf("%.40q: our segment is not congruent", list)
		}
	}
}

// reprog changes a program header in the file.
func reprog(im *image, b []byte, old elfimage.Prog, change func(*elfimage.Prog)) {
	for i, p := range im.Progs {
		if p == old {
			change(&p)
			im.EncodeProg(b[im.Phoff+uint64(i)*im.PhdrSize():], p)
		}
	}
}

// Old linkers make _DYNAMIC absolute; what else is absolute stays.
func TestAbsoluteDynamicFollows(t *testing.T) {
	for _, name := range []string{"no spare entry at all", "mips, no spare entry"} {
		b := shapes[name].with(func(l *shape) { l.symbols = []string{"undefined", "other", "_DYNAMIC"} }).build(t)
		im := parse(t, b)
		off, n, _ := im.DynSymbols()
		value := func(i uint64) uint64 { return off + i*im.SymSize() + im.SymbolValueAt() }
		was := im.Prog(elf.PT_DYNAMIC).Vaddr
		im.PutWord(b[value(n-2):], was+1)
		im.PutWord(b[value(n-1):], was)
		b = edit(t, b, setPath(elf.DT_RUNPATH, lists[1]))
		after := parse(t, b)
		is := after.Prog(elf.PT_DYNAMIC).Vaddr
		if is == was {
			t.Fatalf("%s: .dynamic did not move", name)
		}
		if off, _, _ = after.DynSymbols(); off != 0 && after.Word(b[value(n-1):]) != is {
			t.Errorf("%s: _DYNAMIC is %#x, .dynamic at %#x", name, after.Word(b[value(n-1):]), is)
		}
		if after.Word(b[value(n-2):]) != was+1 {
			t.Errorf("%s: another absolute symbol became %#x", name, after.Word(b[value(n-2):]))
		}
	}
}

// patchelf before 0.15 lets a section run on into the next segment.
func TestRangesAcrossNeighbouringSegments(t *testing.T) {
	im := newImage(&elfimage.Image{Progs: []elfimage.Prog{
		{Type: elf.PT_LOAD, Off: 0, Vaddr: 0x3ff000, Filesz: 0x1000},
		{Type: elf.PT_LOAD, Off: 0x1000, Vaddr: 0x400000, Filesz: 0x500},
		{Type: elf.PT_LOAD, Off: 0x1600, Vaddr: 0x400500, Filesz: 0x100}, // a neighbour in memory only
		{Type: elf.PT_LOAD, Off: 0x1700, Vaddr: 0x400700, Filesz: 0x100}, // in the file only
	}})
	for _, c := range []struct {
		addr, n, off uint64
		ok           bool
	}{
		{0x3ffde8, 0x218, 0xde8, true},
		{0x3ffde8, 0x219, 0xde8, true},
		{0x3ff000, 0x1500, 0, true},
		{0x3ff000, 0x1501, 0, false},
		{0x4004ff, 2, 0, false},
		{0x4005ff, 2, 0, false},
		{0x400500, 0x100, 0x1600, true},
		{0x400800, 0, 0x1800, true},
		{0x400800, 1, 0, false},
		{0x3ff000, ^uint64(0), 0, false},
		{^uint64(0), 2, 0, false},
	} {
		if off, ok := im.FileOffset(c.addr, c.n); ok != c.ok || ok && off != c.off {
			t.Errorf("%#x bytes at %#x: offset %#x, %v", c.n, c.addr, off, ok)
		}
	}
}

// A section without bytes in the file can be where the file has room (see blocks).
func TestZerosInTheWayStay(t *testing.T) {
	b := shapes["library"].build(t)
	im := parse(t, b)
	i := slices.IndexFunc(im.Sections, func(s elfimage.Section) bool { return s.Type == elf.SHT_NOTE })
	s := im.Sections[i]
	s.Type, s.Flags, s.Addralign = elf.SHT_NOBITS, s.Flags|elf.SHF_WRITE, 1
	im.EncodeSection(b[im.Shoff+uint64(i)*im.ShdrSize():], s)
	was, _ := parse(t, b).Memory(s.Addr, s.Size)
	if now, _ := parse(t, edit(t, b, setPath(elf.DT_RUNPATH, lists[1]))).Memory(s.Addr, s.Size); !bytes.Equal(was, now) {
		t.Errorf("%x became %x", was, now)
	}
}

func TestZerosAfterTheImageAreNoPayload(t *testing.T) {
	b := append(plain().build(t), make([]byte, 100_000)...)
	if after := edit(t, b, setPath(elf.DT_RUNPATH, lists[1])); len(after) > len(b)+20_000 {
		t.Errorf("grew from %d to %d bytes", len(b), len(after))
	}
}

// What is between two segments and is not zero is somebody's, although no header names it.
func TestPaddingThatHoldsSomethingStays(t *testing.T) {
	const mark = "somebody's"
	for at := 0; at < 2900; at += 290 {
		b := plain().with(func(l *shape) { l.pad = 3000 }).build(t)
		im := parse(t, b)
		end := uint64(0)
		for _, p := range im.Progs {
			if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 {
				end = p.Off + p.Filesz
			}
		}
		copy(b[end+uint64(at):], mark)
		for _, list := range lists {
			now := edit(t, b, setPath(elf.DT_RUNPATH, list))
			if got := string(now[end+uint64(at):][:len(mark)]); got != mark {
				t.Errorf("%d bytes after the segment: %q instead of %q, with a run path of %d bytes", at, got, mark, len(list))
			}
		}
	}
}

func TestPaddingTakesNoSpace(t *testing.T) {
	b := shapes["padding after the strings"].build(t)
	if after := edit(t, b, setPath(elf.DT_RUNPATH, lists[1])); len(after) != len(b) {
		t.Errorf("grew from %d to %d bytes", len(b), len(after))
	}
}

// The loader computes the load address of a PIE program from PT_PHDR: it does not give up its place.
func TestProgramHeaderOfPIEStays(t *testing.T) {
	b := plain().with(func(l *shape) { l.code = true }).build(t)
	was, now := parse(t, b), parse(t, edit(t, b, setPath(elf.DT_RUNPATH, lists[1])))
	if p := now.Prog(elf.PT_PHDR); p == nil || *p != *was.Prog(elf.PT_PHDR) || len(now.Progs) != len(was.Progs) {
		t.Errorf("PT_PHDR is %+v, and was %+v", p, was.Prog(elf.PT_PHDR))
	}
}

// A gigabyte of .bss must not become a gigabyte of file.
func TestBssTakesNoSpace(t *testing.T) {
	b := shapes[".bss"].build(t)
	if after := edit(t, b, setPath(elf.DT_RUNPATH, lists[1])); len(after) > len(b)+8192 {
		t.Errorf("grew from %d to %d bytes", len(b), len(after))
	}
}

func TestSkipReasons(t *testing.T) {
	for want, l := range map[elfimage.Reason]shape{
		elfimage.Relocatable: plain().with(func(l *shape) { l.typ = elf.ET_REL }),
		elfimage.Core:        plain().with(func(l *shape) { l.typ = elf.ET_CORE }),
		elfimage.OtherType:   plain().with(func(l *shape) { l.typ = 9 }),
		elfimage.Static:      plain().with(func(l *shape) { l.typ, l.program = elf.ET_EXEC, false }),
		elfimage.Detached:    plain().with(func(l *shape) { l.typeOfDyn = elf.SHT_NOBITS }),
		"":                   plain(),
	} {
		im := parse(t, l.build(t))
		if got := im.SkipReason(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if want == "" {
			continue
		}
		if e, err := im.plan(setPath(elf.DT_RUNPATH, "/x")); e != nil || err == nil {
			t.Errorf("%s: planned an edit", want)
		}
	}
}

// A DT_GNU_HASH without a symbol says nothing of the symbols before symoffset, which
// are the undefined ones: how many there are is unknown without section headers.
func TestEmptyHashTableCountsNoSymbols(t *testing.T) {
	for _, noSections := range []bool{false, true} {
		l := plain().with(func(l *shape) { l.program, l.note, l.emptyHash, l.noSections = false, 0, true, noSections })
		im := parse(t, l.build(t))
		_, n, known := im.DynSymbols()
		if known == noSections || known && n != 3 {
			t.Errorf("no sections %v: %d symbols, %v", noSections, n, known)
		}
		was, _ := im.Dyn(elf.DT_SYMTAB)
		after := parse(t, edit(t, l.build(t), setPath(elf.DT_RUNPATH, lists[2])))
		if now, _ := after.Dyn(elf.DT_SYMTAB); noSections && now.Val != was.Val {
			t.Error("symbols that nobody has counted have moved")
		}
	}
}

// Guile's compiled files are ELF files for Guile's own loader: OS ABI 255, machine 0,
// a dynamic section of private tags without a string table.
func TestGuileObjectIsSkipped(t *testing.T) {
	b := plain().with(func(l *shape) { l.machine, l.program = elf.EM_NONE, false }).build(t)
	im := parse(t, b)
	e, _ := im.Dyn(elf.DT_STRTAB)
	damage{b, im}.long(int(e.Off), 0x3712_9c24)
	b[elf.EI_OSABI] = 0xff
	again, err := elfimage.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if got := again.SkipReason(); got != elfimage.OtherLoader {
		t.Errorf("got %q", got)
	}
}

// Code for GPUs has a dynamic section, and no loader that searches a run path takes it. The
// same OS ABI is another's on another machine.
func TestCodeForGPUsIsSkipped(t *testing.T) {
	const amdHSA = 64
	for _, c := range []struct {
		machine elf.Machine
		abi     elf.OSABI
		want    elfimage.Reason
	}{
		{elf.EM_AMDGPU, amdHSA, elfimage.AMDCode},
		{elf.EM_AMDGPU, elf.ELFOSABI_NONE, elfimage.AMDCode},
		{elf.EM_CUDA, 51, elfimage.CUDACode},
		{elf.EM_INTEL205, elf.ELFOSABI_NONE, elfimage.IntelCode},
		{elf.EM_X86_64, amdHSA, ""},
		{elf.EM_ARM, amdHSA, ""},
		{elf.EM_X86_64, elf.ELFOSABI_STANDALONE, ""},
	} {
		b := plain().with(func(l *shape) { l.machine, l.program = c.machine, false }).build(t)
		b[elf.EI_OSABI] = byte(c.abi)
		im := parse(t, b)
		if got := im.SkipReason(); got != c.want {
			t.Errorf("%v, OS ABI %d: %q", c.machine, c.abi, got)
		}
		if _, err := im.plan(setPath(elf.DT_RUNPATH, "/run/opengl-driver/lib")); (err == nil) != (c.want == "") {
			t.Errorf("%v, OS ABI %d: %v", c.machine, c.abi, err)
		}
	}
}

// Notes of owners that are not known to bear it move only where there is no other place,
// and the edit says so.
func TestForeignNoteMovesLast(t *testing.T) {
	for name, c := range map[string]struct {
		l    shape
		want []string
	}{
		"GNU":                        {plain(), nil},
		"foreign, no other place":    {plain().with(func(l *shape) { l.owner, l.bss = "Moz", 1<<30 }), []string{".note.gnu.build-id"}},
		"foreign, a small .bss":      {plain().with(func(l *shape) { l.owner, l.bss = "Moz", 5000 }), nil},
		"foreign, a header to spare": {plain().with(func(l *shape) { l.owner, l.typ = "Moz", elf.ET_EXEC }), nil},
		"foreign, an unused header":  {plain().with(func(l *shape) { l.owner, l.null = "Moz", true }), nil},
	} {
		old := c.l.build(t)
		e, err := parse(t, old).plan(setPath(elf.DT_RUNPATH, lists[2]))
		if err != nil {
			t.Fatal(err)
		}
		if got := e.MovedNotes(); !slices.Equal(got, c.want) {
			t.Errorf("%s: moved %q", name, got)
		}
		note := func(im *image) uint64 { return im.Prog(elf.PT_NOTE).Off }
		if after := parse(t, edit(t, old, setPath(elf.DT_RUNPATH, lists[2]))); c.want == nil && c.l.owner != "" && note(after) != note(parse(t, old)) {
			t.Errorf("%s: it moved all the same", name)
		}
	}
}

// gold lets _edata and _end of a library without RELRO say that they are in .dynamic, which they are not: only a
// symbol that is in the section goes along with it.
func TestSymbolOutsideItsSectionStays(t *testing.T) {
	for name, test := range map[string]struct {
		beyond uint64 // the section's begin, in bytes
		moves  bool
	}{
		"in the section": {1, true}, "of the section": {0, true}, "elsewhere": {0x1000, false},
	} {
		b := plain().build(t)
		im := parse(t, b)
		own := im.stringSection()
		symbols, _ := im.Dyn(elf.DT_SYMTAB)
		symbol := b[symbols.Val+im.SymSize():]
		was := im.Sections[own].Addr + test.beyond
		littleOrder.PutUint16(symbol[6:], uint16(own))
		littleOrder.PutUint64(symbol[8:], was)
		after := parse(t, edit(t, b, setPath(elf.DT_RUNPATH, strings.Repeat("/long", 1000))))
		by := after.Sections[own].Addr - im.Sections[own].Addr
		if by == 0 {
			t.Fatal("the string table has not moved")
		}
		d, _ := after.Dyn(elf.DT_SYMTAB)
		s, _ := after.Memory(d.Val+after.SymSize(), after.SymSize())
		if _, is := after.Symbol(s); is != was && !test.moves || is != was+by && test.moves {
			t.Errorf("a symbol %s: %#x became %#x, and the section moved by %#x", name, was, is, by)
		}
	}
}
