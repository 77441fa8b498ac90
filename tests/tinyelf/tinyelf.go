// Package tinyelf makes ELF files of a few hundred bytes that a dynamic loader
// maps and that name whatever libraries and directories a test wants: no compiler
// is needed, and combinations come out that no linker writes.
package tinyelf

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
)

// Entry is an entry of the dynamic section whose value is a string.
type Entry struct {
	Tag elf.DynTag
	Str string
}

// Object describes a shared library, or with an interpreter a program.
type Object struct {
	Class   elf.Class   // 0: 64 bits
	Machine elf.Machine // 0: x86-64; s390's files are big-endian
	Type    elf.Type    // 0: ET_DYN
	EFlags  uint32      // e_flags
	OSABI   elf.OSABI
	Interp  string
	Strings []Entry // DT_NEEDED, DT_SONAME, DT_RUNPATH …, in this order
	Flags1  elf.DynFlag1
	Data    string // read-only data, in a section of its own
	// Defines are symbol versions (DT_VERDEF); Requires are those of libraries (DT_VERNEED).
	Defines  []string
	Requires []Requirement
	RelR     bool         // has an empty table of relative relocations (DT_RELR)
	Base     uint64       // address of the first byte
	ISA      uint32       // GNU_PROPERTY_X86_ISA_1_NEEDED, in a PT_GNU_PROPERTY of its own
	Stack    elf.ProgFlag // of PT_GNU_STACK; 0: there is none
	Dlopen   string       // the JSON of a .note.dlopen note, in a PT_NOTE of its own
	// Resolution is the description of a resolution note, .note.nixos.ldcache, in a PT_NOTE of its own.
	Resolution string
}

// Requirement is a symbol version that a library is to define.
type Requirement struct {
	Library, Version string
	Weak             bool
}

// hash is the hash of a version's name (gABI, "Hash Table").
func hash(name string) uint32 {
	h := uint32(0)
	for _, c := range []byte(name) {
		h = h<<4 + uint32(c)
		h ^= h >> 24 & 0xf0
		h &= 0x0fffffff
	}
	return h
}

// order returns the byte order of the object's machine.
func (o *Object) order() (elf.Data, binary.AppendByteOrder) {
	if o.Machine == elf.EM_S390 {
		return elf.ELFDATA2MSB, binary.BigEndian
	}
	return elf.ELFDATA2LSB, binary.LittleEndian
}

// versions returns DT_VERSYM's table, DT_VERDEF's and DT_VERNEED's.
func (o *Object) versions(offset func(string) uint64) (sym, def, need []byte) {
	if len(o.Defines)+len(o.Requires) == 0 {
		return nil, nil, nil
	}
	_, order := o.order()
	next := func(i, n int, size uint32) uint32 {
		if i == n-1 {
			return 0
		}
		return size
	}
	for i, name := range o.Defines {
		for _, v := range []uint16{1, 0, uint16(i + 2), 1} { // version, flags, index, names
			def = order.AppendUint16(def, v)
		}
		for _, v := range []uint32{hash(name), 20, next(i, len(o.Defines), 28), uint32(offset(name)), 0} {
			def = order.AppendUint32(def, v)
		}
	}
	for i, r := range o.Requires {
		flags := uint16(0)
		if r.Weak {
			flags = 2
		}
		need = order.AppendUint16(order.AppendUint16(need, 1), 1)
		for _, v := range []uint32{uint32(offset(r.Library)), 16, next(i, len(o.Requires), 32), hash(r.Version)} {
			need = order.AppendUint32(need, v)
		}
		need = order.AppendUint16(order.AppendUint16(need, flags), uint16(len(o.Defines)+2+i))
		need = order.AppendUint32(order.AppendUint32(need, uint32(offset(r.Version))), 0)
	}
	return make([]byte, 16), def, need
}

// Needs appends DT_NEEDED entries.
func (o Object) Needs(names ...string) Object {
	for _, n := range names {
		o.Strings = append(o.Strings, Entry{elf.DT_NEEDED, n})
	}
	return o
}

// With appends an entry.
func (o Object) With(tag elf.DynTag, s string) Object {
	o.Strings = append(o.Strings, Entry{tag, s})
	return o
}

// Bytes returns the file: one segment that holds everything, mapped readable and
// writable, because glibc's loader writes to the dynamic section.
func (o Object) Bytes() []byte {
	if o.Class == 0 {
		o.Class = elf.ELFCLASS64
	}
	if o.Machine == 0 {
		o.Machine = elf.EM_X86_64
	}
	if o.Type == 0 {
		o.Type = elf.ET_DYN
	}
	long := o.Class == elf.ELFCLASS64
	data, order := o.order()
	word := func(b []byte, v uint64) []byte {
		if long {
			return order.AppendUint64(b, v)
		}
		return order.AppendUint32(b, uint32(v))
	}
	ehsize, phsize, shsize, symsize, dynsize := 52, 32, 40, 16, 8
	if long {
		ehsize, phsize, shsize, symsize, dynsize = 64, 56, 64, 24, 16
	}
	hashWord := 4
	if long && o.Machine == elf.EM_S390 { // psABI, "Hash Table": 8 bytes an entry
		hashWord = 8
	}
	phnum := 2
	if o.Interp != "" {
		phnum += 2 // PT_PHDR, PT_INTERP
	}
	if o.ISA != 0 {
		phnum += 2 // PT_NOTE, PT_GNU_PROPERTY
	}
	if o.Stack != 0 {
		phnum++
	}
	align := func(n int) int { return (n + 15) &^ 15 }
	var notes [2][]byte
	note := func(owner, desc string, kind uint32) (b []byte) {
		phnum++
		for _, v := range []uint32{uint32(len(owner) + 1), uint32(len(desc)), kind} {
			b = order.AppendUint32(b, v)
		}
		for _, text := range []string{owner + "\x00", desc} {
			b = append(b, text...)
			b = append(b, make([]byte, -len(b)&3)...)
		}
		return b
	}
	if o.Dlopen != "" {
		notes[0] = note("FDO", o.Dlopen+"\x00", 0x407c0c0a)
	}
	if o.Resolution != "" {
		notes[1] = note("NixOS", o.Resolution, 0x63a86cb6)
	}

	strtab := []byte{0}
	offset := func(s string) uint64 {
		at := uint64(len(strtab))
		strtab = append(append(strtab, s...), 0)
		return at
	}
	type dyn struct {
		tag elf.DynTag
		val uint64
		at  *int // the value is this address, which the layout below settles
	}
	var dyns []dyn
	for _, e := range o.Strings {
		dyns = append(dyns, dyn{e.Tag, offset(e.Str), nil})
	}
	if o.Flags1 != 0 {
		dyns = append(dyns, dyn{elf.DT_FLAGS_1, uint64(o.Flags1), nil})
	}
	versym, verdef, verneed := o.versions(offset)
	var hashAt, symAt, strAt, versymAt, verdefAt, verneedAt, dataAt int
	if versym != nil {
		dyns = append(dyns, dyn{elf.DT_VERSYM, 0, &versymAt})
	}
	if verdef != nil {
		dyns = append(dyns, dyn{elf.DT_VERDEF, 0, &verdefAt}, dyn{elf.DT_VERDEFNUM, uint64(len(o.Defines)), nil})
	}
	if verneed != nil {
		dyns = append(dyns, dyn{elf.DT_VERNEED, 0, &verneedAt}, dyn{elf.DT_VERNEEDNUM, uint64(len(o.Requires)), nil})
	}
	if o.RelR { // DT_RELR, DT_RELRSZ, DT_RELRENT, for which debug/elf has no names
		dyns = append(dyns, dyn{36, 0, &dataAt}, dyn{35, 0, nil}, dyn{37, 8, nil})
	}
	dyns = append(dyns, dyn{elf.DT_HASH, 0, &hashAt}, dyn{elf.DT_SYMTAB, 0, &symAt},
		dyn{elf.DT_SYMENT, uint64(symsize), nil},
		dyn{elf.DT_STRTAB, 0, &strAt}, dyn{elf.DT_STRSZ, uint64(len(strtab)), nil}, dyn{})

	interpAt := ehsize + phnum*phsize
	noteAt := align(interpAt + len(o.Interp) + 1)
	hashAt = noteAt
	if o.ISA != 0 {
		hashAt = align(noteAt + 32)
	}
	symAt = align(hashAt + 4*hashWord)
	dynAt := align(symAt + symsize)
	strAt = dynAt + len(dyns)*dynsize
	versymAt = align(strAt + len(strtab))
	verdefAt = versymAt + len(versym)
	verneedAt = align(verdefAt + len(verdef))
	dataAt = align(verneedAt + len(verneed))
	dlopenAt := align(dataAt + len(o.Data))
	resolutionAt := dlopenAt + len(notes[0])
	end := resolutionAt + len(notes[1])
	names := "\x00.rodata\x00.shstrtab\x00"
	shAt := align(end + len(names))

	var b []byte
	b = append(b, 0x7f, 'E', 'L', 'F', byte(o.Class), byte(data), byte(elf.EV_CURRENT), byte(o.OSABI), 0, 0, 0,
		0, 0, 0, 0, 0)
	b = order.AppendUint16(b, uint16(o.Type))
	b = order.AppendUint16(b, uint16(o.Machine))
	b = order.AppendUint32(b, 1)
	b = word(b, 0)
	b = word(b, uint64(ehsize))
	b = word(b, uint64(shAt))
	b = order.AppendUint32(b, o.EFlags)
	for _, v := range []int{ehsize, phsize, phnum, shsize, 3, 2} {
		b = order.AppendUint16(b, uint16(v))
	}
	prog := func(t elf.ProgType, flags elf.ProgFlag, off, n, align int) {
		b = order.AppendUint32(b, uint32(t))
		if long {
			b = order.AppendUint32(b, uint32(flags))
		}
		for _, v := range []uint64{uint64(off), o.Base + uint64(off), o.Base + uint64(off), uint64(n), uint64(n)} {
			b = word(b, v)
		}
		if !long {
			b = order.AppendUint32(b, uint32(flags))
		}
		b = word(b, uint64(align))
	}
	if o.Interp != "" {
		prog(elf.PT_PHDR, elf.PF_R, ehsize, phnum*phsize, 8)
		prog(elf.PT_INTERP, elf.PF_R, interpAt, len(o.Interp)+1, 1)
	}
	prog(elf.PT_LOAD, elf.PF_R|elf.PF_W, 0, end, 0x1000)
	prog(elf.PT_DYNAMIC, elf.PF_R|elf.PF_W, dynAt, len(dyns)*dynsize, 8)
	if o.ISA != 0 {
		prog(elf.PT_NOTE, elf.PF_R, noteAt, 32, 8)
		prog(0x6474e553, elf.PF_R, noteAt, 32, 8)
	}
	if o.Stack != 0 {
		prog(elf.PT_GNU_STACK, o.Stack, 0, 0, 16)
	}
	for i, at := range []int{dlopenAt, resolutionAt} {
		if notes[i] != nil {
			prog(elf.PT_NOTE, elf.PF_R, at, len(notes[i]), 4)
		}
	}
	b = append(append(b, o.Interp...), 0)
	pad := func(to int) { b = append(b, make([]byte, to-len(b))...) }
	if o.ISA != 0 {
		pad(noteAt)
		for _, v := range []uint32{4, 16, 5, 'G' | 'N'<<8 | 'U'<<16, 0xc0008002, 4, o.ISA, 0} {
			b = order.AppendUint32(b, v)
		}
	}
	pad(hashAt)
	for _, v := range []uint64{1, 1, 0, 0} { // one bucket, one symbol: the null one
		if hashWord == 8 {
			b = order.AppendUint64(b, v)
		} else {
			b = order.AppendUint32(b, uint32(v))
		}
	}
	pad(dynAt)
	for _, d := range dyns {
		if d.at != nil {
			d.val = o.Base + uint64(*d.at)
		}
		b = word(word(b, uint64(d.tag)), d.val)
	}
	b = append(b, strtab...)
	pad(versymAt)
	b = append(append(b, versym...), verdef...)
	pad(verneedAt)
	b = append(b, verneed...)
	pad(dataAt)
	b = append(b, o.Data...)
	pad(dlopenAt)
	b = slices.Concat(b, notes[0], notes[1], []byte(names))
	pad(shAt)
	section := func(name uint32, t elf.SectionType, flags elf.SectionFlag, off, n int) {
		b = order.AppendUint32(order.AppendUint32(b, name), uint32(t))
		addr := int(o.Base) + off
		if flags&elf.SHF_ALLOC == 0 {
			addr = 0
		}
		for _, v := range []int{int(flags), addr, off, n} {
			b = word(b, uint64(v))
		}
		b = order.AppendUint32(order.AppendUint32(b, 0), 0)
		b = word(word(b, 1), 0)
	}
	section(0, elf.SHT_NULL, 0, 0, 0)
	section(1, elf.SHT_PROGBITS, elf.SHF_ALLOC, dataAt, len(o.Data))
	section(9, elf.SHT_STRTAB, 0, end, len(names))
	return b
}

// Put writes an object, or a text, into a file that may be executed, below directories that it makes.
func Put(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, at string, content any) {
	t.Helper()
	var b []byte
	switch c := content.(type) {
	case Object:
		b = c.Bytes()
	case string:
		b = []byte(c)
	default:
		t.Fatalf("%T", content)
	}
	err := os.MkdirAll(filepath.Dir(at), 0o755)
	if err == nil {
		err = os.WriteFile(at, b, 0o755)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
}
