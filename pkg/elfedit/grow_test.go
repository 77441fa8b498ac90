package elfedit

import (
	"bytes"
	"debug/elf"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// A linker script can let PT_INTERP begin with what is before .interp (patchelf's
// test contiguous-note-sections has a note there): that stays as it is.
func TestInterpreterAfterSomethingElse(t *testing.T) {
	l := plain().with(func(l *shape) { l.versions = true })
	b := l.build(t)
	im := parse(t, b)
	versions, _ := im.Dyn(elf.DT_VERSYM)
	damage{b, im}.prog(elf.PT_INTERP, 0, func(p *elfimage.Prog) {
		end := p.Off + p.Filesz
		p.Off, p.Vaddr, p.Paddr = versions.Val, versions.Val, versions.Val
		p.Filesz = end - p.Off
		p.Memsz = p.Filesz
	})
	was, _ := im.Memory(versions.Val, 6)
	for _, interp := range []string{"/l", "/lib/another.so", storeInterp} {
		after := parse(t, edit(t, b, Change{Interpreter: &interp}))
		if got, err := after.Interpreter(); got != interp || err != nil {
			t.Errorf("the interpreter is %q, %v", got, err)
		}
		d, _ := after.Dyn(elf.DT_VERSYM)
		if now, ok := after.Memory(d.Val, 6); !ok || !bytes.Equal(now, was) {
			t.Errorf("%s: the versions were %x and are %x", interp, was, now)
		}
		checkSections(t, after)
	}
}

// Another tool can have moved the program headers into the segment that is last, with
// data after them (patchelf's test pht-collision): that segment grows where it is.
func TestSegmentThatHoldsTheHeadersGrows(t *testing.T) {
	b := plain().with(func(l *shape) {
		l.program, l.after = false, strings.Repeat("H", 5*phdr64)+"alive "+strings.Repeat("!", 200)
	}).build(t)
	at := bytes.Index(b, []byte("HHHH"))
	copy(b[at:], b[ehdr64:][:5*phdr64])
	clear(b[ehdr64:][:5*phdr64])
	littleOrder.PutUint64(b[atPhoff:], uint64(at))
	im := parse(t, b)
	if len(im.Progs) != 5 || im.Phoff != uint64(at) {
		t.Fatalf("%d program headers at %#x", len(im.Progs), im.Phoff)
	}
	before := mustView(t, im)
	for _, list := range lists {
		checkPrefixes(t, b, list)
		after := parse(t, edit(t, b, setPath(elf.DT_RUNPATH, list)))
		if _, now, err := after.RunPath(); now != list || err != nil {
			t.Errorf("the run path is %.60q, %v", now, err)
		}
		if v := mustView(t, after); v != before || after.Phoff != im.Phoff {
			t.Errorf("loader sees\n%s\nbefore\n%s", v, before)
		}
		checkSections(t, after)
	}
}

// A library that can be started exports its interpreter's path (libcap's
// __execable_dl_loader): the symbol goes along, and what code may read stays.
func TestInterpreterThatASymbolNames(t *testing.T) {
	b := plain().build(t)
	im := parse(t, b)
	old := *im.Prog(elf.PT_INTERP)
	symbols, _ := im.Dyn(elf.DT_SYMTAB)
	own := im.interpSection()
	symbol := b[symbols.Val+im.SymSize():]
	littleOrder.PutUint16(symbol[6:], uint16(own))
	littleOrder.PutUint64(symbol[8:], old.Vaddr)
	for _, interp := range []string{storeInterp, "/l"} {
		after := parse(t, edit(t, b, Change{Interpreter: &interp}))
		if got, err := after.Interpreter(); got != interp || err != nil {
			t.Errorf("the interpreter is %q, %v", got, err)
		}
		now := after.Prog(elf.PT_INTERP)
		d, _ := after.Dyn(elf.DT_SYMTAB)
		s, _ := after.Memory(d.Val+after.SymSize(), after.SymSize())
		if _, value := after.Symbol(s); value != now.Vaddr {
			t.Errorf("the symbol is %#x, the interpreter stands at %#x", value, now.Vaddr)
		}
		left, ok := after.Memory(old.Vaddr, old.Filesz)
		if moved := now.Vaddr != old.Vaddr; !ok || moved && !bytes.Equal(left, b[old.Off:][:old.Filesz]) {
			t.Errorf("%q is left", left)
		}
		checkSections(t, after)
	}
}

// A program header of a kind that nobody knows can describe the program headers, as PT_PHDR does.
func TestUnknownHeaderOverTheTable(t *testing.T) {
	b := plain().build(t)
	damage{b, parse(t, b)}.prog(elf.PT_PHDR, 0, func(p *elfimage.Prog) { p.Type = elf.PT_LOOS + 1 })
	before := mustView(t, parse(t, b))
	for _, list := range lists {
		after := parse(t, edit(t, b, setPath(elf.DT_RUNPATH, list)))
		if v := mustView(t, after); v != before {
			t.Errorf("loader sees\n%s\nbefore\n%s", v, before)
		}
	}
}

// glibc and Linux align an image to the largest p_align. Where the segment that gets
// another place is the only one to ask for as much, it goes on asking: variables of
// more than a page's alignment are what it is for.
func TestAlignmentOfTheImageStays(t *testing.T) {
	for name, test := range map[string]struct {
		others, want uint64
	}{
		"others ask for as much": {0x10000, elfimage.PageSize},
		"no other does":          {elfimage.PageSize, 0x10000},
	} {
		t.Run(name, func(t *testing.T) {
			im := &image{Image: &elfimage.Image{Class: elf.ELFCLASS64, Order: littleOrder, Machine: elf.EM_X86_64, Phoff: ehdr64, Progs: []elfimage.Prog{
				{Type: elf.PT_LOAD, Off: 0, Vaddr: 0, Filesz: 0x800, Memsz: 0x800, Align: test.others},
				{Type: elf.PT_LOAD, Off: 0x10000, Vaddr: 0x20000, Filesz: 0x10, Memsz: 0x2000, Align: 0x10000},
			}}, size: 0x12345}
			r, err := (&planner{im: im}).relocatable()
			if err != nil {
				t.Fatal(err)
			}
			if r.align != test.want || (r.addr-r.to)%test.want != 0 {
				t.Errorf("a copy of address %#x at offset %#x, aligned to %#x; want %#x", r.addr, r.to, r.align, test.want)
			}
		})
	}
}

// llvm-strip writes back what a segment holds. A table of symbols that is made shorter there
// is lost, so a segment does not grow over one where it can have another place.
func TestSegmentDoesNotGrowOverTables(t *testing.T) {
	symbols := elfimage.Section{Type: elf.SHT_SYMTAB, Off: 0x10400, Size: 0x18}
	names := elfimage.Section{Type: elf.SHT_STRTAB, Off: 0x10500, Size: 0x20} // of sections
	for name, test := range map[string]struct {
		sections []elfimage.Section
		segment  uint64 // size
		phoff    uint64
		stays    bool
	}{
		"a table of symbols":       {sections: []elfimage.Section{symbols, names}, segment: 0x300},
		"the names of sections":    {sections: []elfimage.Section{{}, names}, segment: 0x300, stays: true},
		"a large segment":          {sections: []elfimage.Section{symbols, names}, segment: maxCopied + 1, stays: true},
		"it holds the headers":     {sections: []elfimage.Section{symbols, names}, segment: 0x300, phoff: 0x10080, stays: true},
		"the table is of no bytes": {sections: []elfimage.Section{{Type: elf.SHT_NOBITS, Off: 0x10400, Size: 0x18}, names}, segment: 0x300, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			moved := test.segment - 0x300
			for i := range test.sections {
				test.sections[i].Off += moved
			}
			im := &image{Image: &elfimage.Image{Class: elf.ELFCLASS64, Order: littleOrder, Machine: elf.EM_X86_64, Phoff: max(test.phoff, ehdr64), Shstrndx: 1,
				Sections: test.sections, Progs: []elfimage.Prog{
					{Type: elf.PT_LOAD, Off: 0, Vaddr: 0, Filesz: 0x800, Memsz: 0x800, Align: 0x1000},
					{Type: elf.PT_LOAD, Off: 0x10000, Vaddr: 0x20000, Filesz: test.segment, Memsz: test.segment, Align: 0x1000},
				}}, size: 0x10600 + moved}
			r, err := (&planner{im: im}).relocatable()
			if err != nil {
				t.Fatal(err)
			}
			if r.stays() != test.stays || !r.stays() && r.to < im.size {
				t.Errorf("the segment of %#x bytes at %#x gets its place at %#x of %#x", r.size, r.off, r.to, im.size)
			}
		})
	}
}

// Where nothing but a program header is new, the segment that becomes longer for want of another one gets some bytes.
func TestStackHeaderAlone(t *testing.T) {
	l := plain().with(func(l *shape) { l.typ, l.noStack = elf.ET_EXEC, true })
	b := edit(t, l.build(t), setPath(elf.DT_RUNPATH, lists[0])) // leaves a hole with a section, which does not become shorter
	damage{b, parse(t, b)}.prog(elf.PT_PHDR, 0, func(p *elfimage.Prog) { *p = elfimage.Prog{Type: elf.PT_LOOS + 1} })
	before := viewOf(t, parse(t, b))
	after := parse(t, edit(t, b, Change{ExecStack: ptr(true)}))
	if stack := after.Stack(); stack == nil || stack.Flags&elf.PF_X == 0 {
		t.Errorf("PT_GNU_STACK is %+v", stack)
	}
	if v := viewOf(t, after); strip(v) != strip(before) {
		t.Errorf("the loader sees\n%s\nbefore\n%s", v, before)
	}
	checkSections(t, after)
}
