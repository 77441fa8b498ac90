// Package tinyelf makes ELF files of a few hundred bytes that a dynamic loader
// maps and that name whatever libraries and directories a test wants: no compiler
// is needed, and combinations come out that no linker writes.
package tinyelf

import (
	"debug/elf"
	"encoding/binary"
)

// Entry is an entry of the dynamic section whose value is a string.
type Entry struct {
	Tag elf.DynTag
	Str string
}

// Object describes a shared library, or with an interpreter a program.
type Object struct {
	Class   elf.Class   // 0: 64 bits
	Machine elf.Machine // 0: x86-64
	Type    elf.Type    // 0: ET_DYN
	EFlags  uint32      // e_flags
	OSABI   elf.OSABI
	Interp  string
	Strings []Entry // DT_NEEDED, DT_SONAME, DT_RUNPATH …, in this order
	Flags1  elf.DynFlag1
	Data    string // read-only data, in a section of its own
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
	le := binary.LittleEndian
	word := func(b []byte, v uint64) []byte {
		if long {
			return le.AppendUint64(b, v)
		}
		return le.AppendUint32(b, uint32(v))
	}
	ehsize, phsize, shsize, symsize, dynsize := 52, 32, 40, 16, 8
	if long {
		ehsize, phsize, shsize, symsize, dynsize = 64, 56, 64, 24, 16
	}
	phnum := 2
	if o.Interp != "" {
		phnum += 2 // PT_PHDR, PT_INTERP
	}
	align := func(n int) int { return (n + 15) &^ 15 }

	strtab := []byte{0}
	offset := func(s string) uint64 {
		at := uint64(len(strtab))
		strtab = append(append(strtab, s...), 0)
		return at
	}
	type dyn struct{ tag, val uint64 }
	var dyns []dyn
	for _, e := range o.Strings {
		dyns = append(dyns, dyn{uint64(e.Tag), offset(e.Str)})
	}
	if o.Flags1 != 0 {
		dyns = append(dyns, dyn{uint64(elf.DT_FLAGS_1), uint64(o.Flags1)})
	}
	interpAt := ehsize + phnum*phsize
	hashAt := align(interpAt + len(o.Interp) + 1)
	symAt := align(hashAt + 16)
	dynAt := align(symAt + symsize)
	const fixed = 6 // HASH, SYMTAB, SYMENT, STRTAB, STRSZ, NULL
	strAt := dynAt + (len(dyns)+fixed)*dynsize
	dataAt := align(strAt + len(strtab))
	end := dataAt + len(o.Data)
	names := "\x00.rodata\x00.shstrtab\x00"
	shAt := align(end + len(names))
	dyns = append(dyns, dyn{uint64(elf.DT_HASH), uint64(hashAt)}, dyn{uint64(elf.DT_SYMTAB), uint64(symAt)},
		dyn{uint64(elf.DT_SYMENT), uint64(symsize)}, dyn{uint64(elf.DT_STRTAB), uint64(strAt)},
		dyn{uint64(elf.DT_STRSZ), uint64(len(strtab))}, dyn{0, 0})

	var b []byte
	b = append(b, 0x7f, 'E', 'L', 'F', byte(o.Class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT), byte(o.OSABI), 0, 0, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint16(b, uint16(o.Type))
	b = le.AppendUint16(b, uint16(o.Machine))
	b = le.AppendUint32(b, 1)
	b = word(b, 0)
	b = word(b, uint64(ehsize))
	b = word(b, uint64(shAt))
	b = le.AppendUint32(b, o.EFlags)
	for _, v := range []int{ehsize, phsize, phnum, shsize, 3, 2} {
		b = le.AppendUint16(b, uint16(v))
	}
	prog := func(t elf.ProgType, flags elf.ProgFlag, off, n, align int) {
		b = le.AppendUint32(b, uint32(t))
		if long {
			b = le.AppendUint32(b, uint32(flags))
		}
		for _, v := range []int{off, off, off, n, n} {
			b = word(b, uint64(v))
		}
		if !long {
			b = le.AppendUint32(b, uint32(flags))
		}
		b = word(b, uint64(align))
	}
	if o.Interp != "" {
		prog(elf.PT_PHDR, elf.PF_R, ehsize, phnum*phsize, 8)
		prog(elf.PT_INTERP, elf.PF_R, interpAt, len(o.Interp)+1, 1)
	}
	prog(elf.PT_LOAD, elf.PF_R|elf.PF_W, 0, end, 0x1000)
	prog(elf.PT_DYNAMIC, elf.PF_R|elf.PF_W, dynAt, len(dyns)*dynsize, 8)
	b = append(append(b, o.Interp...), 0)
	pad := func(to int) { b = append(b, make([]byte, to-len(b))...) }
	pad(hashAt)
	for _, v := range []uint32{1, 1, 0, 0} { // one bucket, one symbol: the null one
		b = le.AppendUint32(b, v)
	}
	pad(dynAt)
	for _, d := range dyns {
		b = word(word(b, d.tag), d.val)
	}
	b = append(b, strtab...)
	pad(dataAt)
	b = append(append(b, o.Data...), names...)
	pad(shAt)
	section := func(name uint32, t elf.SectionType, flags elf.SectionFlag, off, n int) {
		b = le.AppendUint32(le.AppendUint32(b, name), uint32(t))
		addr := off
		if flags&elf.SHF_ALLOC == 0 {
			addr = 0
		}
		for _, v := range []int{int(flags), addr, off, n} {
			b = word(b, uint64(v))
		}
		b = le.AppendUint32(le.AppendUint32(b, 0), 0)
		b = word(word(b, 1), 0)
	}
	section(0, elf.SHT_NULL, 0, 0, 0)
	section(1, elf.SHT_PROGBITS, elf.SHF_ALLOC, dataAt, len(o.Data))
	section(9, elf.SHT_STRTAB, 0, end, len(names))
	return b
}
