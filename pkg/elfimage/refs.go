package elfimage

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// DynSymbols returns the file offset and the number of the dynamic symbols. The
// loader needs no count; it is in the section header, or follows from the
// hash table. known is false if it cannot be determined.
func (im *Image) DynSymbols() (off, n uint64, known bool) {
	tab, ok := im.Dyn(elf.DT_SYMTAB)
	if !ok {
		return 0, 0, true
	}
	n, known = im.dynSymbolCount(tab.Val)
	if !known {
		return 0, 0, false
	}
	off, ok = im.FileOffset(tab.Val, n*im.SymSize())
	return off, n, ok
}

func (im *Image) dynSymbolCount(addr uint64) (uint64, bool) {
	for i := range im.Sections {
		if s := &im.Sections[i]; s.Type == elf.SHT_DYNSYM && s.Addr == addr {
			return s.Size / im.SymSize(), true
		}
	}
	if d, ok := im.Dyn(elf.DT_HASH); ok {
		w := im.HashWord()
		if b, ok := im.Memory(d.Val, 2*w); ok {
			return im.Uint(b[w:], w), true // nchain: one for each symbol
		}
	}
	if d, ok := im.Dyn(elf.DT_GNU_HASH); ok {
		if n, _, ok := im.GNUHash(d.Val); n > 0 || !ok {
			return n, ok
		}
	}
	return im.copiedSymbols(addr)
}

// copiedSymbols counts the symbols at an address by the section header of a copy of them. A killed edit leaves one if
// it switched only DT_SYMTAB, or only the section headers.
func (im *Image) copiedSymbols(addr uint64) (uint64, bool) {
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type != elf.SHT_DYNSYM {
			continue
		}
		a, mapped := im.Memory(addr, s.Size)
		b, too := im.Memory(s.Addr, s.Size)
		return s.Size / im.SymSize(), mapped && too && bytes.Equal(a, b)
	}
	return 0, false
}

// HashWord is the size of a DT_HASH word in bytes: 8 on Alpha and 64-bit s390, against the gABI's 4.
func (im *Image) HashWord() uint64 {
	if im.Is64() && (im.Machine == elf.EM_S390 || im.Machine == elf.EM_ALPHA) {
		return 8
	}
	return 4
}

// Uint reads a number of size bytes, 4 or 8, in the image's byte order.
func (im *Image) Uint(b []byte, size uint64) uint64 {
	if size == 8 {
		return im.Order.Uint64(b)
	}
	return uint64(im.Order.Uint32(b))
}

// Memory returns n bytes at an address, from the file.
func (im *Image) Memory(addr, n uint64) ([]byte, bool) {
	off, ok := im.FileOffset(addr, n)
	if !ok || n > im.size {
		return nil, false
	}
	b, err := im.Read(off, n)
	return b, err == nil
}

// GNUHash returns the number of dynamic symbols that follows from a DT_GNU_HASH table, and the table's size in bytes.
// Its last chain ends at the last symbol (binutils, "GNU Hash ELF Sections"). A table without a chain does not tell
// the number, because nothing says how many symbols come before those in the table; symbols is then 0.
func (im *Image) GNUHash(addr uint64) (symbols, size uint64, ok bool) {
	head, ok := im.Memory(addr, 16)
	if !ok {
		return 0, 0, false
	}
	u32 := func(i int) uint64 { return uint64(im.Order.Uint32(head[4*i:])) }
	nbuckets, symoffset, bloom := u32(0), u32(1), u32(2)
	buckets := addr + 16 + bloom*im.WordSize()
	chains := buckets + 4*nbuckets
	last := uint64(0)
	if !im.eachWord(buckets, nbuckets, func(v uint32) bool { last = max(last, uint64(v)); return true }) {
		return 0, 0, false
	}
	if last < symoffset {
		return 0, chains - addr, true
	}
	found := false
	from := chains + 4*(last-symoffset)
	im.eachWord(from, maxChain, func(v uint32) bool {
		last++
		found = v&1 != 0
		return !found
	})
	return last, chains + 4*(last-symoffset) - addr, found
}

// maxChain bounds the symbols behind the first of the last chain, because a file with holes may seem to have any
// number.
const maxChain = 1 << 24

// eachWord calls do for n 32-bit words from an address on, until do returns false. It returns false at a word that is
// in no PT_LOAD.
func (im *Image) eachWord(addr, n uint64, do func(uint32) bool) bool {
	const most = 16 << 10
	size := uint64(64) // a chain is short
	for n > 0 {
		want := min(4*n, size)
		off, ok := im.FileOffset(addr, want)
		if !ok {
			want = 4
			if off, ok = im.FileOffset(addr, want); !ok {
				return false
			}
		}
		more := true
		err := im.EachPiece(off, want/4, 4, func(_ uint64, b []byte) {
			for ; len(b) > 0 && more; b = b[4:] {
				more = do(im.Order.Uint32(b))
			}
		})
		if err != nil || !more {
			return err == nil
		}
		addr, n = addr+want, n-want/4
		size = most
	}
	return true
}

// A stringRef is called with an offset in the dynamic string table.
type stringRef func(off uint64)

// EachStringRef reports the references to the string table that the format knows, except those of dynamic entries.
// They come from symbols, version needs and definitions, and sections that share the table. at is the file offset of
// the referring word of a version table, else 0. It returns false if it cannot see all.
func (im *Image) EachStringRef(do func(off, at uint64)) (complete bool, err error) {
	ref := func(off uint64) { do(off, 0) }
	off, n, known := im.DynSymbols()
	if !known {
		return false, nil
	}
	if err := im.eachSymbolName(off, n, ref); err != nil {
		return false, err
	}
	err = im.EachVersionRef(func(r VersionRef) error { do(r.Str, r.Off); return nil })
	if err != nil {
		return false, err
	}
	return true, im.eachSharedName(ref)
}

// IsStringTag reports whether the value of a dynamic entry is an offset in the string table
// (gABI, "Dynamic Section"; the audit and auxiliary ones are GNU's and Sun's).
func IsStringTag(tag elf.DynTag) bool {
	switch tag {
	case elf.DT_NEEDED, elf.DT_SONAME, elf.DT_RPATH, elf.DT_RUNPATH, elf.DT_CONFIG, elf.DT_DEPAUDIT, elf.DT_AUDIT,
		elf.DT_AUXILIARY, elf.DT_FILTER, elf.DT_MIPS_IVERSION:
		return true
	}
	return false
}

// eachSymbolName reports the names of n symbols at an offset in the file.
func (im *Image) eachSymbolName(off, n uint64, ref stringRef) error {
	size := im.SymSize()
	return im.EachPiece(off, n, size, func(_ uint64, b []byte) {
		if im.Data == elf.ELFDATA2LSB { // most files; a call through the interface costs as much as the rest
			for ; len(b) > 0; b = b[size:] {
				ref(uint64(binary.LittleEndian.Uint32(b)))
			}
		}
		for ; len(b) > 0; b = b[size:] {
			ref(uint64(im.Order.Uint32(b))) // st_name comes first in both classes
		}
	})
}

// eachSharedName reports the names of sections, and of symbols in tables other than .dynsym, that are in the dynamic
// string table.
func (im *Image) eachSharedName(ref stringRef) error {
	dynstr := im.StringSection()
	if dynstr < 0 {
		return nil
	}
	if int(im.Shstrndx) == dynstr {
		for i := range im.Sections {
			ref(uint64(im.Sections[i].NameOff))
		}
	}
	for i := range im.Sections {
		s := &im.Sections[i]
		if int(s.Link) == dynstr && s.Type == elf.SHT_SYMTAB {
			if s.Size > im.size || s.Off > im.size-s.Size {
				return Malformed(im.Shoff, "section %d is outside the file", i)
			}
			if err := im.eachSymbolName(s.Off, s.Size/im.SymSize(), ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// StringSection returns the index of the section header of the dynamic string table, or -1. If none has its address,
// .dynamic says which it is (gABI, "sh_link"): a killed edit had moved the section and not yet DT_STRTAB.
func (im *Image) StringSection() int {
	linked := -1
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type == elf.SHT_STRTAB && s.Flags&elf.SHF_ALLOC != 0 && s.Addr == im.StrAddr {
			return i
		}
		if s.Type == elf.SHT_DYNAMIC && s.Off == im.DynOff && uint64(s.Link) < uint64(len(im.Sections)) &&
			im.Sections[s.Link].Type == elf.SHT_STRTAB {
			linked = int(s.Link)
		}
	}
	return linked
}

// Symbol returns st_shndx and st_value (gABI, "Symbol Table").
func (im *Image) Symbol(b []byte) (elf.SectionIndex, uint64) {
	if im.Is64() {
		return elf.SectionIndex(im.Order.Uint16(b[6:])), im.Order.Uint64(b[8:])
	}
	return elf.SectionIndex(im.Order.Uint16(b[14:])), uint64(im.Order.Uint32(b[4:]))
}

// SymbolInfo returns st_info and st_other.
func (im *Image) SymbolInfo(b []byte) (info, other byte) {
	at := pick(im.Is64(), 4, 12)
	return b[at], b[at+1]
}

// SymbolValueAt is the offset of st_value in a symbol, in bytes.
func (im *Image) SymbolValueAt() uint64 { return pick(im.Is64(), 8, 4) }
