package elfedit

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// A shape describes an ELF file to build, as small as the loader accepts it: one
// read-only segment with the headers, .interp, a note, .hash, .dynsym and .dynstr,
// and a writable one with .dynamic. No toolchain is needed for any class, byte
// order or defect.
type shape struct {
	class   elf.Class
	order   binary.ByteOrder
	machine elf.Machine
	typ     elf.Type

	program    bool // with PT_INTERP
	note       int  // size of the note's description, bytes
	runpath    string
	rpath      string
	needed     []string
	pathFirst  bool     // the run path comes before DT_NEEDED
	tableFirst bool     // the string table is right after the program headers
	symbols    []string // names of dynamic symbols
	share      bool     // let the symbols share the tail of the run path
	spare      int      // dynamic entries after the terminator
	relacount  bool

	rldMap     bool // DT_MIPS_RLD_MAP_REL, which counts from its own entry
	pad        int  // bytes of zeros after .dynstr
	bss        uint64
	noSections bool
	null       bool // a PT_NULL entry
	code       bool // instructions are right after the program headers
	align      uint64
	tail       string // appended data
	typeOfDyn  elf.SectionType
	owner      string // of the note, 3 letters; "": GNU
	cache      string // a resolution cache of patchelf's after the note, or where note is 0 alone
	emptyHash  bool   // DT_GNU_HASH without a symbol in place of DT_HASH
	after      string // live bytes right after .dynamic
	skew       uint64 // bytes by which .dynamic is further on
	versions   bool   // .gnu.version is right after the program headers
	noStack    bool   // no PT_GNU_STACK
	junk       bool   // what follows .dynamic's DT_NULL is not zero
}

var (
	littleOrder = binary.LittleEndian
	bigOrder    = binary.BigEndian
)

func plain() shape {
	return shape{class: elf.ELFCLASS64, order: littleOrder, machine: elf.EM_X86_64, typ: elf.ET_DYN,
		program: true, note: 20, needed: []string{"libc.so.6"}, symbols: []string{"malloc", "free"}, spare: 4, align: 4096}
}

func (l shape) hasNote() bool { return l.note > 0 || l.cache != "" }

func (l shape) with(f func(*shape)) shape { f(&l); return l }

// strtab collects strings; suffixes are shared on request, as linkers do.
type strtab struct{ b []byte }

func (s *strtab) add(v string, share bool) uint64 {
	if share {
		if i := bytes.Index(s.b, append([]byte(v), 0)); i >= 0 {
			return uint64(i)
		}
	}
	at := len(s.b)
	s.b = append(append(s.b, v...), 0)
	return uint64(at)
}

// build writes the file.
func (l shape) build(t testing.TB) []byte {
	t.Helper()
	im := &elfimage.Image{Class: l.class, Order: l.order, Machine: l.machine} // for the sizes and codecs
	w := im.WordSize()
	str := &strtab{b: []byte{0}}
	var dyn []elfimage.Dyn
	needed := func() {
		for _, n := range l.needed {
			dyn = append(dyn, elfimage.Dyn{Tag: elf.DT_NEEDED, Val: str.add(n, false)})
		}
	}
	if !l.pathFirst {
		needed()
	}
	if l.rpath != "" {
		dyn = append(dyn, elfimage.Dyn{Tag: elf.DT_RPATH, Val: str.add(l.rpath, false)})
	}
	if l.runpath != "" {
		dyn = append(dyn, elfimage.Dyn{Tag: elf.DT_RUNPATH, Val: str.add(l.runpath, false)})
	}
	if l.pathFirst {
		needed()
	}
	syms := make([]byte, im.SymSize())
	for i, n := range l.symbols {
		s := make([]byte, im.SymSize())
		l.order.PutUint32(s, uint32(str.add(n, l.share)))
		if i > 0 { // defined, at an absolute address far from everything
			l.order.PutUint16(s[pick(im.Is64(), 6, 14):], uint16(elf.SHN_ABS))
		}
		syms = append(syms, s...)
	}
	nsyms := uint64(len(syms)) / im.SymSize()
	hw := im.HashWord()
	hash := make([]byte, (3+nsyms)*hw)
	put := func(i, v uint64) {
		if hw == 8 {
			l.order.PutUint64(hash[i*8:], v)
		} else {
			l.order.PutUint32(hash[i*4:], uint32(v))
		}
	}
	put(0, 1)
	put(1, nsyms)
	hashTag, hashType := elf.DT_HASH, elf.SHT_HASH
	if l.emptyHash { // one empty bucket, symoffset 1, one word of Bloom filter
		hashTag, hashType = elf.DT_GNU_HASH, elf.SHT_GNU_HASH
		hash = make([]byte, 16+w+4)
		put(0, 1)
		put(1, 1)
		put(2, 1)
	}

	type sec struct {
		name     string
		typ      elf.SectionType
		flags    elf.SectionFlag
		off      uint64
		data     []byte
		align    uint64
		entsize  uint64
		addrDiff uint64
	}
	var progs []elfimage.Prog
	var secs []sec
	nprogs := uint64(3) // LOAD, LOAD, DYNAMIC
	for _, c := range []bool{!l.noStack, l.program, l.program, l.hasNote(), l.null} {
		if c {
			nprogs++ // GNU_STACK, PHDR, INTERP, NOTE, NULL
		}
	}
	base := pick(l.typ == elf.ET_EXEC, 0x400000, 0)
	at := im.EhdrSize() + nprogs*im.PhdrSize()
	add := func(name string, typ elf.SectionType, data []byte, align uint64, entsize uint64) uint64 {
		at = alignUp(at, align)
		secs = append(secs, sec{name: name, typ: typ, flags: elf.SHF_ALLOC, off: at, data: data, align: align, entsize: entsize})
		at += uint64(len(data))
		return at - uint64(len(data))
	}
	if l.code {
		add(".init", elf.SHT_PROGBITS, []byte{0xf3, 0x0f, 0x1e, 0xfa}, 4, 0)
		secs[0].flags |= elf.SHF_EXECINSTR
	}
	var interp, note, strAt, versionsAt uint64
	if l.versions {
		versions := make([]byte, 2*nsyms)
		for i := range nsyms {
			l.order.PutUint16(versions[2*i:], uint16(1+i))
		}
		versionsAt = add(".gnu.version", elf.SHT_GNU_VERSYM, versions, 2, 2)
	}
	if l.tableFirst {
		strAt = add(".dynstr", elf.SHT_STRTAB, str.b, 1, 0)
	}
	if l.program {
		interp = add(".interp", elf.SHT_PROGBITS, []byte("/lib/ld.so\x00"), 1, 0)
	}
	noteData := make([]byte, 16+alignUp(uint64(l.note), 4))
	l.order.PutUint32(noteData, 4)
	l.order.PutUint32(noteData[4:], uint32(l.note))
	l.order.PutUint32(noteData[8:], 3)
	copy(noteData[12:], cmp.Or(l.owner, "GNU")+"\x00"+strings.Repeat("\xab", l.note))
	noteName := ".note.gnu.build-id"
	if l.cache != "" {
		entry := make([]byte, 12)
		l.order.PutUint32(entry, 6)
		l.order.PutUint32(entry[4:], uint32(len(l.cache)))
		l.order.PutUint32(entry[8:], 0x63a86cb6)
		entry = append(entry, "NixOS\x00\x00\x00"+l.cache...)
		if l.note == 0 {
			noteName, noteData = ".note.nixos.ldcache", nil
		}
		noteData = append(noteData, append(entry, make([]byte, -len(entry)&3)...)...)
	}
	if l.hasNote() {
		note = add(noteName, elf.SHT_NOTE, noteData, 4, 0)
	}
	hashAt := add(".hash", hashType, hash, w, 4)
	symAt := add(".dynsym", elf.SHT_DYNSYM, syms, w, im.SymSize())
	if !l.tableFirst {
		strAt = add(".dynstr", elf.SHT_STRTAB, str.b, 1, 0)
	}
	roText := at
	if l.pad == 0 { // the segment ends with bytes that are not padding
		add(".rodata", elf.SHT_PROGBITS, bytes.Repeat([]byte{0xcc}, int(l.align-at%l.align)), 1, 0)
	}
	roEnd := at
	_ = roText
	at += uint64(max(l.pad, 0))
	// .dynamic
	dyn = append(dyn, elfimage.Dyn{Tag: hashTag, Val: base + hashAt}, elfimage.Dyn{Tag: elf.DT_STRTAB, Val: base + strAt},
		elfimage.Dyn{Tag: elf.DT_SYMTAB, Val: base + symAt}, elfimage.Dyn{Tag: elf.DT_STRSZ, Val: uint64(len(str.b))}, elfimage.Dyn{Tag: elf.DT_SYMENT, Val: im.SymSize()})
	if l.versions {
		dyn = append(dyn, elfimage.Dyn{Tag: elf.DT_VERSYM, Val: base + versionsAt})
	}
	if l.relacount {
		dyn = append(dyn, elfimage.Dyn{Tag: elf.DT_RELACOUNT, Val: 7})
	}
	if l.rldMap {
		dyn = append(dyn, elfimage.Dyn{Tag: elf.DT_MIPS_RLD_MAP_REL, Val: 0x1234})
	}
	dynData := make([]byte, uint64(len(dyn)+1+l.spare)*im.DynSize())
	for i, d := range dyn {
		im.PutWord(dynData[uint64(i)*im.DynSize():], uint64(d.Tag))
		im.PutWord(dynData[uint64(i)*im.DynSize()+w:], d.Val)
	}
	if l.junk {
		for i := uint64(len(dyn)+1) * im.DynSize(); i < uint64(len(dynData)); i++ {
			dynData[i] = 0x55
		}
	}
	at = alignUp(at, 16) + l.skew
	shift := base + l.align // the second segment's address is its offset plus this
	dynAt := at
	typ := l.typeOfDyn
	if typ == 0 {
		typ = elf.SHT_DYNAMIC
	}
	secs = append(secs, sec{name: ".dynamic", typ: typ, flags: elf.SHF_ALLOC | elf.SHF_WRITE, off: at, data: dynData, align: w, entsize: im.DynSize(), addrDiff: l.align})
	at += uint64(len(dynData))
	if l.after != "" {
		secs = append(secs, sec{name: ".data", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_WRITE, off: at, data: []byte(l.after), align: 1, addrDiff: l.align})
		at += uint64(len(l.after))
	}
	load := func(p elfimage.Prog) { progs = append(progs, p) }
	phdrs := nprogs * im.PhdrSize()
	if l.program {
		load(elfimage.Prog{Type: elf.PT_PHDR, Flags: elf.PF_R, Off: im.EhdrSize(), Vaddr: base + im.EhdrSize(), Paddr: base + im.EhdrSize(), Filesz: phdrs, Memsz: phdrs, Align: w})
		load(elfimage.Prog{Type: elf.PT_INTERP, Flags: elf.PF_R, Off: interp, Vaddr: base + interp, Paddr: base + interp, Filesz: 11, Memsz: 11, Align: 1})
	}
	load(elfimage.Prog{Type: elf.PT_LOAD, Flags: elf.PF_R, Off: 0, Vaddr: base, Paddr: base, Filesz: roEnd, Memsz: roEnd, Align: l.align})
	load(elfimage.Prog{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_W, Off: dynAt, Vaddr: shift + dynAt, Paddr: shift + dynAt, Filesz: at - dynAt, Memsz: at - dynAt + l.bss, Align: l.align})
	load(elfimage.Prog{Type: elf.PT_DYNAMIC, Flags: elf.PF_R | elf.PF_W, Off: dynAt, Vaddr: shift + dynAt, Paddr: shift + dynAt, Filesz: uint64(len(dynData)), Memsz: uint64(len(dynData)), Align: w})
	if l.hasNote() {
		load(elfimage.Prog{Type: elf.PT_NOTE, Flags: elf.PF_R, Off: note, Vaddr: base + note, Paddr: base + note, Filesz: uint64(len(noteData)), Memsz: uint64(len(noteData)), Align: 4})
	}
	if !l.noStack {
		load(elfimage.Prog{Type: elf.PT_GNU_STACK, Flags: elf.PF_R | elf.PF_W, Align: 16})
	}
	if l.null {
		load(elfimage.Prog{Type: elf.PT_NULL})
	}

	out := make([]byte, at)
	copy(out, elf.ELFMAG)
	out[elf.EI_CLASS], out[elf.EI_VERSION] = byte(l.class), 1
	out[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	if l.order == bigOrder {
		out[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	}
	l.order.PutUint16(out[16:], uint16(l.typ))
	l.order.PutUint16(out[18:], uint16(l.machine))
	l.order.PutUint32(out[20:], 1)
	im.PutWord(out[24+w:], im.EhdrSize())
	l.order.PutUint16(out[24+3*w+4:], uint16(im.EhdrSize()))
	l.order.PutUint16(out[24+3*w+6:], uint16(im.PhdrSize()))
	l.order.PutUint16(out[24+3*w+8:], uint16(len(progs)))
	for i, p := range progs {
		im.EncodeProg(out[im.EhdrSize()+uint64(i)*im.PhdrSize():], p)
	}
	for _, s := range secs {
		copy(out[s.off:], s.data)
	}
	if !l.noSections {
		names := &strtab{b: []byte{0}}
		headers := []elfimage.Section{{}}
		dynstr := uint32(0)
		for i, s := range secs {
			if s.name == ".dynstr" {
				dynstr = uint32(i + 1)
			}
		}
		for _, s := range secs {
			h := elfimage.Section{NameOff: uint32(names.add(s.name, false)), Type: s.typ, Flags: s.flags, Addr: base + s.off + s.addrDiff,
				Off: s.off, Size: uint64(len(s.data)), Addralign: s.align, Entsize: s.entsize}
			if s.typ == elf.SHT_DYNAMIC || s.typ == elf.SHT_DYNSYM {
				h.Link = dynstr
			}
			headers = append(headers, h)
		}
		shstr := elfimage.Section{NameOff: uint32(names.add(".shstrtab", false)), Type: elf.SHT_STRTAB, Off: uint64(len(out)), Addralign: 1}
		shstr.Size = uint64(len(names.b))
		headers = append(headers, shstr)
		out = append(out, names.b...)
		out = append(out, make([]byte, alignUp(uint64(len(out)), 8)-uint64(len(out)))...)
		im.PutWord(out[24+2*w:], uint64(len(out)))
		l.order.PutUint16(out[24+3*w+10:], uint16(im.ShdrSize()))
		l.order.PutUint16(out[24+3*w+12:], uint16(len(headers)))
		l.order.PutUint16(out[24+3*w+14:], uint16(len(headers)-1))
		for _, h := range headers {
			b := make([]byte, im.ShdrSize())
			im.EncodeSection(b, h)
			out = append(out, b...)
		}
	}
	return append(out, l.tail...)
}

// memFile is a file in memory that counts and can refuse writes.
type memFile struct {
	b      []byte
	writes int
	calls  []span // what was written
	fail   int    // the write that fails, from 1; 0: none
	short  bool
}

func (m *memFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memFile) WriteAt(p []byte, off int64) (int, error) {
	m.writes++
	m.calls = append(m.calls, span{uint64(off), uint64(len(p))})
	if m.writes == m.fail {
		if m.short {
			p = p[:max(len(p)-1, 0)]
		} else {
			p = nil
		}
	}
	if need := off + int64(len(p)); need > int64(len(m.b)) && len(p) > 0 {
		m.b = append(m.b, make([]byte, need-int64(len(m.b)))...)
	}
	copy(m.b[min(off, int64(len(m.b))):], p)
	if m.writes == m.fail {
		return len(p), fmt.Errorf("no space left on device")
	}
	return len(p), nil
}

func (m *memFile) Truncate(size int64) error {
	m.b = m.b[:min(size, int64(len(m.b)))]
	return nil
}

func setPath(tag elf.DynTag, list string) Change {
	return Change{RunPath: &RunPath{Tag: tag, List: list}}
}

// parseFile is elfimage.Parse for the tests of this package.
func parseFile(r io.ReaderAt, size int64) (*image, error) {
	im, err := elfimage.Parse(r, size)
	if err != nil {
		return nil, err
	}
	return newImage(im), nil
}

func parse(t testing.TB, b []byte) *image {
	t.Helper()
	im, err := parseFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return im
}

// edit applies a change and returns the file afterwards.
func edit(t testing.TB, b []byte, c Change) []byte {
	t.Helper()
	f := &memFile{b: bytes.Clone(b)}
	im, err := parseFile(f, int64(len(b)))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	e, err := im.plan(c)
	if err != nil {
		t.Fatalf("plan %+v: %v", c, err)
	}
	if e == nil {
		return f.b
	}
	if err := e.Apply(f); err != nil {
		t.Fatalf("apply: %v", err)
	}
	if int64(len(f.b)) != im.Size()+e.Growth() {
		t.Fatalf("file has %d bytes, the plan said %d", len(f.b), im.Size()+e.Growth())
	}
	return f.b
}

func pick(long bool, a, b uint64) uint64 {
	if long {
		return a
	}
	return b
}

// NewLibrary returns a library for the example: a file that has no name.
func NewLibrary() (*os.File, error) {
	f, err := os.CreateTemp("", "")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(plain().with(func(l *shape) { l.program, l.rpath = false, "/usr/lib/old" }).build(new(testing.T)))
	return f, errors.Join(err, os.Remove(f.Name()))
}
