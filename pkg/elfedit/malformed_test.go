package elfedit

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// try parses a file and plans an edit of it that needs a new segment.
func try(b []byte) error {
	im, err := parseFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	if reason := im.SkipReason(); reason != "" {
		return errors.New(string(reason))
	}
	if _, _, err := im.RunPath(); err != nil {
		return err
	}
	if _, err := im.Needed(); err != nil {
		return err
	}
	if _, err := im.Interpreter(); err != nil {
		return err
	}
	_, err = im.plan(setPath(elf.DT_RUNPATH, strings.Repeat("/long", 2000)))
	return err
}

// damage edits the headers of a well-formed 64-bit file in memory.
type damage struct {
	b  []byte
	im *image
}

func (d damage) half(off int, v uint16) { littleOrder.PutUint16(d.b[off:], v) }
func (d damage) long(off int, v uint64) { littleOrder.PutUint64(d.b[off:], v) }

// prog changes the n-th program header of a type.
func (d damage) prog(t elf.ProgType, n int, f func(*elfimage.Prog)) {
	for i := range d.im.Progs {
		if d.im.Progs[i].Type != t {
			continue
		}
		if n > 0 {
			n--
			continue
		}
		f(&d.im.Progs[i])
		d.im.EncodeProg(d.b[d.im.Phoff+uint64(i)*56:], d.im.Progs[i])
		return
	}
	panic("no such program header")
}

// section changes the header of the section with a name.
func (d damage) section(name string, f func(*elfimage.Section)) {
	for i := range d.im.Sections {
		if d.im.SectionName(i) == name {
			f(&d.im.Sections[i])
			d.im.EncodeSection(d.b[d.im.Shoff+uint64(i)*64:], d.im.Sections[i])
			return
		}
	}
	panic("no section " + name)
}

// dyn gives a dynamic entry a new value.
func (d damage) dyn(tag elf.DynTag, v uint64) {
	e, ok := d.im.Dyn(tag)
	if !ok {
		panic(tag.String())
	}
	d.long(int(e.Off)+8, v)
}

// Offsets of the ELF header's fields in a 64-bit file (gABI, "ELF Header").
const (
	atPhoff, atShoff                         = 32, 40
	atEhsize, atPhentsize, atPhnum           = 52, 54, 56
	atShentsize, atShnum, atShstrndx         = 58, 60, 62
	ehdr64, phdr64                           = 64, 56
	load1, load2, dynamicAt, interpAt        = ehdr64 + 2*phdr64, ehdr64 + 3*phdr64, ehdr64 + 4*phdr64, ehdr64 + phdr64
	huge                              uint64 = math.MaxUint64
)

func TestMalformed(t *testing.T) {
	base := plain().with(func(l *shape) { l.runpath = "/old/run/path" }).build(t)
	size := len(base)
	im := parse(t, base)
	entry := func(tag elf.DynTag) uint64 { d, _ := im.Dyn(tag); return d.Off }
	for name, c := range map[string]struct {
		f    func(damage)
		want string
	}{
		"class":       {func(d damage) { d.b[elf.EI_CLASS] = 3 }, "unknown ELF class 3 (offset 0x4)"},
		"encoding":    {func(d damage) { d.b[elf.EI_DATA] = 0 }, "unknown data encoding 0 (offset 0x5)"},
		"version":     {func(d damage) { d.b[elf.EI_VERSION] = 9 }, "unknown ELF version 9 (offset 0x6)"},
		"other order": {func(d damage) { d.b[elf.EI_DATA] = 2 }, "e_ehsize is 16384, not 64 (offset 0x34)"},
		"e_ehsize":    {func(d damage) { d.half(atEhsize, 0) }, "e_ehsize is 0, not 64 (offset 0x34)"},
		"e_phentsize": {func(d damage) { d.half(atPhentsize, 0xffff) }, "e_phentsize is 65535, not 56 (offset 0x36)"},
		"e_phnum":     {func(d damage) { d.half(atPhnum, 0xffff) }, "e_phnum is PN_XNUM: more than 65534 program headers (offset 0x38)"},
		"e_phnum, one less": {func(d damage) { d.half(atPhnum, 0xfffe) },
			fmt.Sprintf("program header table of 65534 entries is outside the file of %d bytes (offset 0x40)", size)},
		"e_phnum 0":     {func(d damage) { d.half(atPhnum, 0) }, "no dynamic section"},
		"e_phoff":       {func(d damage) { d.long(atPhoff, huge) }, fmt.Sprintf("program header table of 7 entries is outside the file of %d bytes (offset 0x7fffffffffffffff)", size)},
		"e_shentsize":   {func(d damage) { d.half(atShentsize, 1) }, "e_shentsize is 1, not 64 (offset 0x3a)"},
		"e_shoff":       {func(d damage) { d.long(atShoff, huge-8) }, fmt.Sprintf("section header table of 9 entries is outside the file of %d bytes (offset 0x7fffffffffffffff)", size)},
		"e_shnum":       {func(d damage) { d.half(atShnum, 0xfeff) }, fmt.Sprintf("section header table of 65279 entries is outside the file of %d bytes (offset 0x3c)", size)},
		"e_shnum large": {func(d damage) { d.half(atShnum, 12) }, fmt.Sprintf("section header table of 12 entries is outside the file of %d bytes (offset %#x)", size, im.Shoff)},
		"e_shstrndx":    {func(d damage) { d.half(atShstrndx, 77) }, fmt.Sprintf("section name table is section 77 of 9 (offset %#x)", im.Shoff)},
		"PT_LOAD beyond the end": {func(d damage) { d.prog(elf.PT_LOAD, 1, func(p *elfimage.Prog) { p.Off += 1 << 20 }) },
			fmt.Sprintf("PT_LOAD of %d bytes at %#x is outside the file of %d bytes (offset %#x)", im.Progs[3].Filesz, im.Progs[3].Off+1<<20, size, load2)},
		"PT_LOAD p_filesz": {func(d damage) { d.prog(elf.PT_LOAD, 0, func(p *elfimage.Prog) { p.Filesz = huge }) },
			fmt.Sprintf("PT_LOAD of %d bytes at 0x0 is outside the file of %d bytes (offset %#x)", huge, size, load1)},
		"PT_LOAD p_memsz below p_filesz": {func(d damage) { d.prog(elf.PT_LOAD, 0, func(p *elfimage.Prog) { p.Memsz = 1 }) },
			fmt.Sprintf("PT_LOAD has p_filesz %#x above p_memsz 0x1 (offset %#x)", im.Progs[2].Filesz, load1)},
		"PT_LOAD p_vaddr wraps": {func(d damage) {
			d.prog(elf.PT_LOAD, 1, func(p *elfimage.Prog) { p.Vaddr = huge - 4096 + 1 + p.Off%4096; p.Memsz = 1 << 20 })
		},
			fmt.Sprintf("PT_LOAD at address %#x with p_memsz 0x100000 wraps around (offset %#x)", huge-4096+1+im.Progs[3].Off%4096, load2)},
		"PT_LOAD p_align": {func(d damage) { d.prog(elf.PT_LOAD, 0, func(p *elfimage.Prog) { p.Align = 4095 }) },
			fmt.Sprintf("PT_LOAD has p_align 0xfff, not a power of two (offset %#x)", load1)},
		"PT_LOAD misaligned": {func(d damage) { d.prog(elf.PT_LOAD, 1, func(p *elfimage.Prog) { p.Vaddr++ }) },
			fmt.Sprintf("PT_LOAD has p_vaddr %#x and p_offset %#x that differ modulo 0x1000 (offset %#x)", im.Progs[3].Vaddr+1, im.Progs[3].Off, load2)},
		"PT_LOAD order": {func(d damage) { d.prog(elf.PT_LOAD, 0, func(p *elfimage.Prog) { p.Vaddr = 1 << 30 }) },
			fmt.Sprintf("PT_LOAD at address %#x comes after the one at 0x40000000 (offset %#x)", im.Progs[3].Vaddr, load2)},
		"PT_LOAD overlap": {func(d damage) { d.prog(elf.PT_LOAD, 0, func(p *elfimage.Prog) { p.Memsz = 1 << 20 }) },
			fmt.Sprintf("PT_LOAD at address %#x overlaps the one at 0x0 and maps other bytes (offset %#x)", im.Progs[3].Vaddr, load2)},
		"PT_DYNAMIC outside": {func(d damage) { d.prog(elf.PT_DYNAMIC, 0, func(p *elfimage.Prog) { p.Filesz = 1 << 40 }) },
			fmt.Sprintf("PT_DYNAMIC of 1099511627776 bytes at %#x is outside the file of %d bytes (offset %#x)", im.DynOff, size, dynamicAt)},
		"PT_DYNAMIC elsewhere": {func(d damage) { d.prog(elf.PT_DYNAMIC, 0, func(p *elfimage.Prog) { p.Off = 0 }) },
			fmt.Sprintf("PT_DYNAMIC at address %#x does not match what a PT_LOAD maps there (offset 0x0)", im.Progs[4].Vaddr)},
		"PT_DYNAMIC without DT_NULL": {func(d damage) {
			d.prog(elf.PT_DYNAMIC, 0, func(p *elfimage.Prog) { p.Filesz = 16 * uint64(len(d.im.Dynamic)) })
		},
			fmt.Sprintf("dynamic section of %d entries has no DT_NULL (offset %#x)", len(im.Dynamic), im.DynOff)},
		"PT_DYNAMIC empty":  {func(d damage) { d.prog(elf.PT_DYNAMIC, 0, func(p *elfimage.Prog) { p.Filesz = 0 }) }, "no dynamic section"},
		"no DT_STRTAB":      {func(d damage) { d.long(int(entry(elf.DT_STRTAB)), uint64(elf.DT_DEBUG)) }, fmt.Sprintf("dynamic section has no DT_STRTAB or no DT_STRSZ (offset %#x)", im.DynOff)},
		"no DT_STRSZ":       {func(d damage) { d.long(int(entry(elf.DT_STRSZ)), uint64(elf.DT_DEBUG)) }, fmt.Sprintf("dynamic section has no DT_STRTAB or no DT_STRSZ (offset %#x)", im.DynOff)},
		"DT_STRTAB":         {func(d damage) { d.dyn(elf.DT_STRTAB, huge) }, fmt.Sprintf("string table of %d bytes at address %#x is in no PT_LOAD (offset %#x)", im.StrSize, huge, entry(elf.DT_STRTAB))},
		"DT_STRSZ":          {func(d damage) { d.dyn(elf.DT_STRSZ, huge) }, fmt.Sprintf("string table of %d bytes at address %#x is in no PT_LOAD (offset %#x)", huge, im.StrAddr, entry(elf.DT_STRTAB))},
		"DT_RUNPATH":        {func(d damage) { d.dyn(elf.DT_RUNPATH, 1<<20) }, fmt.Sprintf("DT_RUNPATH is offset 0x100000 of a string table of %d bytes (offset %#x)", im.StrSize, entry(elf.DT_RUNPATH))},
		"DT_NEEDED":         {func(d damage) { d.dyn(elf.DT_NEEDED, im.StrSize) }, fmt.Sprintf("DT_NEEDED is offset %#x of a string table of %d bytes (offset %#x)", im.StrSize, im.StrSize, entry(elf.DT_NEEDED))},
		"string unfinished": {func(d damage) { d.b[d.im.StrOff+d.im.StrSize-1] = 'x'; d.dyn(elf.DT_RUNPATH, d.im.StrSize-3) }, fmt.Sprintf("unterminated string (offset %#x)", im.StrOff+im.StrSize-3)},
		"PT_INTERP outside": {func(d damage) { d.prog(elf.PT_INTERP, 0, func(p *elfimage.Prog) { p.Off = huge }) },
			fmt.Sprintf("PT_INTERP of 11 bytes at %#x is outside the file of %d bytes (offset %#x)", huge, size, interpAt)},
		"PT_INTERP unfinished":         {func(d damage) { d.prog(elf.PT_INTERP, 0, func(p *elfimage.Prog) { p.Filesz = 4 }) }, fmt.Sprintf("unterminated string (offset %#x)", im.Progs[1].Off)},
		"DT_HASH outside, no sections": {func(d damage) { d.long(atShoff, 0); d.half(atShnum, 0); d.dyn(elf.DT_HASH, huge) }, fmt.Sprintf("neither section headers nor a hash table give the number of dynamic symbols (offset %#x)", im.DynOff)},
		"DT_HASH of 4 billion symbols, no sections": {func(d damage) {
			d.long(atShoff, 0)
			d.half(atShnum, 0)
			e, _ := d.im.Dyn(elf.DT_HASH)
			littleOrder.PutUint32(d.b[e.Val+4:], math.MaxUint32)
		}, fmt.Sprintf("neither section headers nor a hash table give the number of dynamic symbols (offset %#x)", im.DynOff)},
		"sections overlapping": {func(d damage) { d.section(".hash", func(s *elfimage.Section) { s.Off, s.Size = 0, 1<<40 }) }, "section .hash has sh_offset 0x0 and sh_size 0x10000000000, outside the file of 4944 bytes (offset 0x11e8)"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(base)
			c.f(damage{b, parse(t, base)})
			kept := bytes.Clone(b)
			err := try(b)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if !bytes.Equal(b, kept) {
				t.Error("the file was modified")
			}
		})
	}
}

// Cut anywhere, a file with section headers at its end is refused, with an offset.
func TestTruncatedAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, l := range shapes {
		if l.tail != "" || l.noSections || l.align > 4096 {
			continue
		}
		b := l.build(t)
		for n := range len(b) {
			err := try(b[:n])
			var format *elfimage.FormatError
			switch {
			case n < 4 && !errors.Is(err, elfimage.ErrNotELF):
				t.Errorf("%s cut to %d bytes: %v", name, n, err)
			case n >= 4 && !errors.As(err, &format):
				t.Errorf("%s cut to %d bytes: %v", name, n, err)
			}
		}
	}
}

// Chained version records whose links lead backwards or nowhere end.
func TestVersionRecordsEnd(t *testing.T) {
	l := plain().with(func(l *shape) { l.runpath = "/old" })
	b := l.build(t)
	im := parse(t, b)
	// Let the table of needed versions be the program header table: noise with links.
	d := damage{b, im}
	e, _ := im.Dyn(elf.DT_SYMENT)
	d.long(int(e.Off), uint64(elf.DT_VERNEED))
	d.long(int(e.Off)+8, 0)
	d.long(int(e.Off)+16, uint64(elf.DT_VERNEEDNUM)) // takes the terminator
	d.long(int(e.Off)+24, 1<<62)
	err := try(b)
	if err == nil || !strings.Contains(err.Error(), "DT_VERNEEDNUM is 4611686018427387904 in a file of") {
		t.Errorf("got %v", err)
	}
	d.long(int(e.Off)+24, 100)
	if err := try(b); err != nil {
		t.Logf("with noise for records: %v", err)
	}
}

// A marker may be false: found by fuzzing, a run path that runs out of its room.
func TestRoomSmallerThanItsString(t *testing.T) {
	b := edit(t, plain().build(t), setPath(elf.DT_RUNPATH, lists[1]))
	i := bytes.Index(b, []byte(roomMark))
	copy(b[i+len(roomMark):], "00000005")
	im := parse(t, edit(t, b, setPath(elf.DT_RUNPATH, "/other")))
	if _, list, err := im.RunPath(); list != "/other" || err != nil {
		t.Errorf("run path is %q, %v", list, err)
	}
}
