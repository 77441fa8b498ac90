package elfimage

import (
	"cmp"
	"debug/elf"
	"slices"
)

// An Owner is something that a range of the file belongs to.
type Owner struct {
	Off, Size, Addr uint64
	Tag             elf.DynTag // of the dynamic entry
	Index           int        // of the section or program header
	Kind            OwnerKind
}

// End is the offset after the owner's last byte.
func (o Owner) End() uint64 { return o.Off + o.Size }

// OwnerKind says by what an owner is known.
type OwnerKind uint8

// The kinds of owner.
const (
	FileHeader     OwnerKind = iota // the ELF header
	ProgramHeaders                  // the program header table
	SectionHeaders                  // the section header table
	OfSection                       // a section header names the range
	OfSegment                       // a program header that describes bytes of its own (PT_NOTE, PT_INTERP …)
	OfDynamic                       // a dynamic entry points to it
)

// sizeTag returns the tag of the dynamic entry with the size of the table that another entry points to.
func sizeTag(table elf.DynTag) (elf.DynTag, bool) {
	const relr, relrSize = elf.DynTag(36), elf.DynTag(35)
	switch table {
	case elf.DT_RELA:
		return elf.DT_RELASZ, true
	case elf.DT_REL:
		return elf.DT_RELSZ, true
	case elf.DT_JMPREL:
		return elf.DT_PLTRELSZ, true
	case relr:
		return relrSize, true
	case elf.DT_INIT_ARRAY:
		return elf.DT_INIT_ARRAYSZ, true
	case elf.DT_FINI_ARRAY:
		return elf.DT_FINI_ARRAYSZ, true
	case elf.DT_PREINIT_ARRAY:
		return elf.DT_PREINIT_ARRAYSZ, true
	case elf.DT_STRTAB:
		return elf.DT_STRSZ, true
	}
	return 0, false
}

// TableSections are the dynamic entries that point to a table whose sections have a type
// of their own (gABI, "Sections"; glibc elf.h for GNU's).
var TableSections = [...]tableSection{
	{elf.DT_STRTAB, elf.SHT_STRTAB}, {elf.DT_SYMTAB, elf.SHT_DYNSYM}, {elf.DT_HASH, elf.SHT_HASH},
	{elf.DT_GNU_HASH, elf.SHT_GNU_HASH},
	{elf.DT_VERSYM, elf.SHT_GNU_VERSYM}, {elf.DT_VERNEED, elf.SHT_GNU_VERNEED}, {elf.DT_VERDEF, elf.SHT_GNU_VERDEF},
}

type tableSection struct {
	Tag  elf.DynTag
	Type elf.SectionType
}

// Owners returns who owns which bytes of the file, in order of offset, for use until the image is released. Owners
// overlap, because a dynamic entry mostly points to a section. Bytes of a segment without an owner have an unknown
// use, and are alive. A dynamic entry whose size cannot be determined owns nothing, such as the symbols of a file
// without section headers and with an empty hash table.
func (im *Image) Owners() []Owner {
	own := im.spare()
	out := slices.Grow(own.owners[:0], len(im.Sections)+len(im.Progs)+16)
	out = append(out, Owner{Size: im.EhdrSize(), Kind: FileHeader},
		Owner{Off: im.Phoff, Size: uint64(len(im.Progs)) * im.PhdrSize(), Kind: ProgramHeaders})
	if len(im.Sections) > 0 {
		out = append(out, Owner{Off: im.Shoff, Size: uint64(len(im.Sections)) * im.ShdrSize(), Kind: SectionHeaders})
	}
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.HasBytes() {
			out = append(out, Owner{Off: s.Off, Size: s.Size, Addr: s.Addr, Kind: OfSection, Index: i})
		} else if !s.isZeros() {
			continue
		} else if off, ok := im.FileOffset(s.Addr, s.Size); ok { // .bss that the file holds as zeros
			out = append(out, Owner{Off: off, Size: s.Size, Addr: s.Addr, Kind: OfSection, Index: i})
		}
	}
	for i := range im.Progs {
		if p := &im.Progs[i]; p.HasBytes() && p.Type != elf.PT_GNU_RELRO && !im.isStale(p) {
			out = append(out, Owner{Off: p.Off, Size: p.Filesz, Addr: p.Vaddr, Kind: OfSegment, Index: i})
		}
	}
	for _, d := range im.Dynamic {
		n, ok := im.tableSize(d)
		if !ok || n == 0 {
			continue
		}
		if off, mapped := im.FileOffset(d.Val, n); mapped {
			out = append(out, Owner{Off: off, Size: n, Addr: d.Val, Kind: OfDynamic, Tag: d.Tag})
		}
	}
	slices.SortFunc(out, func(a, b Owner) int {
		if a.Off != b.Off {
			return cmp.Compare(a.Off, b.Off)
		}
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Tag, b.Tag))
	})
	own.owners = out
	return slices.Clip(out)
}

// isStale reports whether a PT_GNU_PROPERTY describes bytes that are no note any more. patchelf 0.14.3, which Debian
// 12 has, moves the note and leaves the header. On x86 the loader takes no property from such bytes
// (_dl_process_pt_gnu_property, elf/dl-load.c of glibc), and something else owns them. arm64's kernel reads the note,
// so there it stays a contradiction.
func (im *Image) isStale(p *Prog) bool {
	if p.Type != elf.PT_GNU_PROPERTY || im.Machine != elf.EM_X86_64 && im.Machine != elf.EM_386 {
		return false
	}
	b, padding, err := im.readNotes(p.Off, p.Filesz, p.Align)
	if err != nil || b == nil {
		return false
	}
	for n := range im.eachNoteIn(b, padding) {
		return string(n.owner) != "GNU"
	}
	return true
}

// tableSize returns the size in bytes of what a dynamic entry points to.
func (im *Image) tableSize(d Dyn) (uint64, bool) {
	if size, ok := sizeTag(d.Tag); ok {
		n, ok := im.Dyn(size)
		return n.Val, ok
	}
	switch d.Tag {
	case elf.DT_HASH:
		return im.hashSize(d.Val)
	case elf.DT_GNU_HASH:
		_, n, ok := im.GNUHash(d.Val)
		return n, ok
	case elf.DT_SYMTAB:
		_, n, known := im.DynSymbols()
		return n * im.SymSize(), known
	case elf.DT_VERSYM:
		_, n, known := im.DynSymbols()
		return n * 2, known
	case elf.DT_VERNEED, elf.DT_VERDEF:
		return im.versionTableSize(d.Tag)
	}
	return 0, false
}

// hashSize returns the size in bytes of a DT_HASH table at an address.
func (im *Image) hashSize(addr uint64) (uint64, bool) {
	w := im.HashWord()
	b, ok := im.Memory(addr, 2*w)
	if !ok {
		return 0, false
	}
	return (2 + im.Uint(b, w) + im.Uint(b[w:], w)) * w, true
}
