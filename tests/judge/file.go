package judge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// A File is an ELF file as its bytes say it is: nothing is corrected, nothing is
// taken from anywhere else. Offsets, addresses and sizes are in bytes.
type File struct {
	data  []byte
	wide  bool // ELFCLASS64
	order binary.ByteOrder
	head  header
	segs  []segment
	sects []section
	dyn   []entry
	dynAt span // addresses of the whole dynamic section, spare entries included

	dynEnds bool // there is a DT_NULL inside the dynamic section
}

// A header is the ELF header (gABI, "ELF Header"), with the numbers of the extended
// numbering put in place.
type header struct {
	osabi, abiversion             byte
	kind, machine                 uint16
	version                       uint32
	entry, phoff, shoff           uint64
	flags                         uint32
	ehsize, phentsize, shentsize  uint16
	phnum, shnum, shstrndx        uint64
	rawPhnum, rawShnum, rawStrndx uint16
}

type segment struct {
	kind, flags          uint32
	off, vaddr, paddr    uint64
	filesz, memsz, align uint64
}

type section struct {
	nameAt                 uint32
	name                   string
	kind, link, info       uint32
	flags, addr, off, size uint64
	align, entrySize       uint64
}

type entry struct {
	tag uint64 // of 32-bit files as well: their tags fit
	val uint64
}

// A span is the addresses or offsets from lo up to and not including hi.
type span struct{ lo, hi uint64 }

func (s span) has(at uint64) bool   { return s.lo <= at && at < s.hi }
func (s span) overlaps(t span) bool { return s.lo < t.hi && t.lo < s.hi }
func (s span) contains(t span) bool { return s.lo <= t.lo && t.hi <= s.hi }
func (s span) String() string       { return fmt.Sprintf("%#x–%#x", s.lo, s.hi) }
func of(at, size uint64) span       { return span{at, at + size} }

// without returns what is left of the spans when others are taken out.
func without(spans []span, others ...span) (left []span) {
	for _, s := range spans {
		parts := []span{s}
		for _, o := range others {
			var next []span
			for _, p := range parts {
				if !p.overlaps(o) {
					next = append(next, p)
					continue
				}
				if p.lo < o.lo {
					next = append(next, span{p.lo, o.lo})
				}
				if o.hi < p.hi {
					next = append(next, span{o.hi, p.hi})
				}
			}
			parts = next
		}
		left = append(left, parts...)
	}
	return left
}

// The numbers of the gABI and of glibc's elf/elf.h that are needed here.
const (
	typeExec = 2
	typeDyn  = 3

	ptNull, ptLoad, ptDynamic, ptInterp, ptNote, ptPhdr, ptTLS = 0, 1, 2, 3, 4, 6, 7
	ptStack, ptRelro, ptProperty                               = 0x6474e551, 0x6474e552, 0x6474e553

	shtNull, shtProgbits, shtSymtab, shtStrtab, shtRela, shtHash, shtDynamic = 0, 1, 2, 3, 4, 5, 6
	shtNote, shtNobits, shtRel, shtDynsym, shtRelr                           = 7, 8, 9, 11, 19
	shtGnuHash, shtVerdef, shtVerneed, shtVersym                             = 0x6ffffff6, 0x6ffffffd,
		0x6ffffffe, 0x6fffffff

	shfWrite, shfAlloc, shfExec, shfTLS = 1, 2, 4, 0x400

	flagX, flagW, flagR = 1, 2, 4
)

// Open maps a file and reads its headers. Close it when done.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() == 0 {
		return nil, fmt.Errorf("%s: empty", path)
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out, err := Read(data)
	if err != nil {
		syscall.Munmap(data)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// Close unmaps a file that Open has mapped.
func (f *File) Close() error { return syscall.Munmap(f.data) }

// Read reads the headers of an ELF file in memory, which must stay as it is.
func Read(data []byte) (f *File, err error) {
	if len(data) < 52 || string(data[:4]) != "\x7fELF" {
		return nil, fmt.Errorf("not an ELF file")
	}
	defer func() { // a header that leads out of the file
		if r := recover(); r != nil {
			f, err = nil, fmt.Errorf("a header points out of the file: %v", r)
		}
	}()
	f = &File{data: data, wide: data[4] == 2, order: binary.LittleEndian}
	if data[5] == 2 {
		f.order = binary.BigEndian
	}
	h := &f.head
	h.osabi, h.abiversion = data[7], data[8]
	c := f.at(16)
	h.kind, h.machine, h.version = c.half(), c.half(), c.word()
	h.entry, h.phoff, h.shoff = c.addr(), c.addr(), c.addr()
	h.flags = c.word()
	h.ehsize, h.phentsize, h.rawPhnum = c.half(), c.half(), c.half()
	h.shentsize, h.rawShnum, h.rawStrndx = c.half(), c.half(), c.half()
	h.phnum, h.shnum, h.shstrndx = uint64(h.rawPhnum), uint64(h.rawShnum), uint64(h.rawStrndx)
	if h.shoff != 0 {
		zero := f.section(0)
		if h.rawShnum == 0 {
			h.shnum = zero.size
		}
		if h.rawPhnum == 0xffff {
			h.phnum = uint64(zero.info)
		}
		if h.rawStrndx == 0xffff {
			h.shstrndx = uint64(zero.link)
		}
	} else {
		h.shnum = 0
	}
	for i := range h.phnum {
		c := f.at(h.phoff + i*uint64(h.phentsize))
		var p segment
		p.kind = c.word()
		if f.wide {
			p.flags = c.word()
		}
		p.off, p.vaddr, p.paddr, p.filesz, p.memsz = c.addr(), c.addr(), c.addr(), c.addr(), c.addr()
		if !f.wide {
			p.flags = c.word()
		}
		p.align = c.addr()
		f.segs = append(f.segs, p)
	}
	for i := range h.shnum {
		f.sects = append(f.sects, f.section(i))
	}
	if h.shstrndx < uint64(len(f.sects)) {
		names := f.sects[h.shstrndx]
		for i := range f.sects {
			f.sects[i].name, _ = f.cString(names.off+uint64(f.sects[i].nameAt), names.off+names.size)
		}
	}
	for _, p := range f.segs {
		if p.kind == ptDynamic {
			f.readDynamic(p)
			break // as glibc: elf/dl-load.c keeps one
		}
	}
	return f, nil
}

func (f *File) section(i uint64) (s section) {
	c := f.at(f.head.shoff + i*uint64(f.head.shentsize))
	s.nameAt, s.kind = c.word(), c.word()
	s.flags, s.addr, s.off, s.size = c.addr(), c.addr(), c.addr(), c.addr()
	s.link, s.info = c.word(), c.word()
	s.align, s.entrySize = c.addr(), c.addr()
	return s
}

// readDynamic reads the entries up to DT_NULL from memory, as the loader does.
func (f *File) readDynamic(p segment) {
	f.dynAt = of(p.vaddr, max(p.memsz, p.filesz))
	size := 2 * f.word()
	b, ok := f.memory(p.vaddr, p.filesz)
	if !ok {
		return
	}
	for ; uint64(len(b)) >= size; b = b[size:] {
		c := cursor{f, b}
		e := entry{c.addr(), c.addr()}
		if e.tag == 0 {
			f.dynEnds = true
			break
		}
		f.dyn = append(f.dyn, e)
	}
}

// A cursor reads one field after the other. It panics at the end of its bytes.
type cursor struct {
	f *File
	b []byte
}

func (f *File) at(off uint64) *cursor { return &cursor{f, f.data[off:]} }

func (c *cursor) half() uint16 {
	v := c.f.order.Uint16(c.b)
	c.b = c.b[2:]
	return v
}

func (c *cursor) word() uint32 {
	v := c.f.order.Uint32(c.b)
	c.b = c.b[4:]
	return v
}

// addr reads an address, an offset or a size: four bytes or eight, by the class.
func (c *cursor) addr() uint64 {
	if !c.f.wide {
		return uint64(c.word())
	}
	v := c.f.order.Uint64(c.b)
	c.b = c.b[8:]
	return v
}

// word is the size of an address.
func (f *File) word() uint64 {
	if f.wide {
		return 8
	}
	return 4
}

// cString reads a string at an offset; it must end before limit.
func (f *File) cString(off, limit uint64) (string, bool) {
	limit = min(limit, uint64(len(f.data)))
	if off >= limit {
		return "", false
	}
	s, _, ok := bytes.Cut(f.data[off:limit], []byte{0})
	return string(s), ok
}

// loads are the PT_LOAD segments that hold anything.
func (f *File) loads() (out []segment) {
	for _, p := range f.segs {
		if p.kind == ptLoad && p.memsz > 0 {
			out = append(out, p)
		}
	}
	return out
}

// memory returns n bytes at an address of the loaded image, zeros after what the
// file holds included. It is false where one segment does not map them all.
func (f *File) memory(addr, n uint64) ([]byte, bool) {
	for _, p := range f.segs {
		if p.kind != ptLoad || addr < p.vaddr || addr-p.vaddr > p.memsz || n > p.memsz-(addr-p.vaddr) {
			continue
		}
		at := addr - p.vaddr
		if at+n <= p.filesz {
			if p.off+at+n > uint64(len(f.data)) {
				return nil, false
			}
			return f.data[p.off+at : p.off+at+n], true
		}
		if n > 1<<26 {
			return nil, false
		}
		b := make([]byte, n)
		if at < p.filesz && p.off+p.filesz <= uint64(len(f.data)) {
			copy(b, f.data[p.off+at:p.off+p.filesz])
		}
		return b, true
	}
	return nil, false
}

// one returns the value of the last entry of a tag, as the loader takes it (glibc,
// elf/get-dynamic-info.h).
func (f *File) one(tag uint64) (val uint64, ok bool) {
	for _, e := range f.dyn {
		if e.tag == tag {
			val, ok = e.val, true
		}
	}
	return val, ok
}

func (f *File) all(tag uint64) (vals []uint64) {
	for _, e := range f.dyn {
		if e.tag == tag {
			vals = append(vals, e.val)
		}
	}
	return vals
}

// strings returns address and size of the dynamic string table.
func (f *File) strings() (addr, size uint64) {
	addr, _ = f.one(dtStrtab)
	size, _ = f.one(dtStrsz)
	return addr, size
}

// str reads a string of the dynamic string table.
func (f *File) str(off uint64) (string, bool) {
	addr, size := f.strings()
	if off >= size {
		return "", false
	}
	b, ok := f.memory(addr+off, size-off)
	if !ok {
		return "", false
	}
	s, _, ok := bytes.Cut(b, []byte{0})
	return string(s), ok
}

// names reads the strings that the entries of a tag name.
func (f *File) names(tag uint64) (out []string) {
	for _, off := range f.all(tag) {
		s, ok := f.str(off)
		if !ok {
			s = fmt.Sprintf("(no string at %#x)", off)
		}
		out = append(out, s)
	}
	return out
}

// sectionAt finds the section of a kind at an address.
func (f *File) sectionAt(kind uint32, addr uint64) (section, bool) {
	i := slices.IndexFunc(f.sects, func(s section) bool { return s.kind == kind && s.addr == addr })
	if i < 0 {
		return section{}, false
	}
	return f.sects[i], true
}

// content returns a section's bytes in the file.
func (f *File) content(s section) ([]byte, bool) {
	if s.kind == shtNobits || s.kind == shtNull {
		return nil, true
	}
	if s.off > uint64(len(f.data)) || s.size > uint64(len(f.data))-s.off {
		return nil, false
	}
	return f.data[s.off : s.off+s.size], true
}

// HeadersAt is the offset of the program headers.
func (f *File) HeadersAt() uint64 { return f.head.phoff }

// Counted reports whether anything tells how many dynamic symbols there are.
func (f *File) Counted() bool {
	_, exact := f.symbolCount()
	return exact
}

// Damaged returns what is wrong with a file that only runs by luck.
func (f *File) Damaged() error {
	for i, p := range f.loads() {
		if p.off+p.filesz > uint64(len(f.data)) {
			return errors.New("a segment ends after the file")
		}
		if i > 0 && p.vaddr < f.loads()[i-1].vaddr+f.loads()[i-1].memsz {
			return errors.New("two segments overlap")
		}
	}
	if _, ok := f.memory(f.strings()); !ok {
		return errors.New("the dynamic string table is in no segment")
	}
	return nil
}

// RunPath returns the run path that the loader goes by and its tag, "RUNPATH" or
// "RPATH"; no tag where there is none.
func (f *File) RunPath() (list, tag string) {
	if l := f.names(dtRunpath); len(l) > 0 {
		return l[len(l)-1], "RUNPATH"
	}
	if l := f.names(dtRpath); len(l) > 0 {
		return l[len(l)-1], "RPATH"
	}
	return "", ""
}

// Needed returns the needed libraries, in order.
func (f *File) Needed() []string { return f.names(dtNeeded) }

// Soname reports whether the file has a soname.
func (f *File) Soname() bool { return len(f.all(dtSoname)) > 0 }

// Named reports whether a text is a whole one of the dynamic string table, as the name of every symbol is.
func (f *File) Named(text string) bool {
	addr, size := f.strings()
	table, ok := f.memory(addr, size)
	return ok && bytes.Contains(table, []byte("\x00"+text+"\x00"))
}

// Interpreter returns the text of PT_INTERP up to its first zero, "" where there is none.
func (f *File) Interpreter() string {
	for _, p := range f.ofKind(ptInterp) {
		if raw, ok := f.rawAt(p); ok {
			text, _, _ := bytes.Cut(raw, []byte{0})
			return string(text)
		}
	}
	return ""
}
