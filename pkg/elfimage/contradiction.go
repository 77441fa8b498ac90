package elfimage

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
)

// Contradiction returns a *FormatError for the first field in which a file that parses contradicts itself, its size
// or the gABI, or nil. It says why a file cannot be edited although every loader takes it: two tables have the same
// bytes, or a section header disagrees with where its address is mapped. Files written by linkers and the usual tools
// have none. It takes time in proportion to the size of the headers.
func (im *Image) Contradiction() error {
	for _, check := range []func() error{im.sectionRanges, im.segmentRanges, im.dynamicEntries, im.overlaps,
		im.tableSections} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// sectionAt returns the offset of a section header's sh_offset.
func (im *Image) sectionAt(i int) uint64 {
	return im.Shoff + uint64(i)*im.ShdrSize() + 8 + 2*im.WordSize()
}

func (im *Image) sectionText(i int) string {
	if name := im.SectionName(i); name != "" {
		return "section " + name
	}
	return fmt.Sprintf("section %d", i)
}

// sectionRanges compares what each section header says with the file's size and with
// what is mapped at its address.
func (im *Image) sectionRanges() error {
	for i := range im.Sections {
		s := &im.Sections[i]
		if a := s.Addralign; a&(a-1) != 0 {
			return Malformed(im.sectionAt(i)+2*im.WordSize()+8, "%s has sh_addralign %#x, not a power of two",
				im.sectionText(i), a)
		}
		if !s.HasBytes() {
			continue
		}
		if err := im.SectionInFile(i); err != nil {
			return err
		}
		if s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		switch p := im.Segment(s.Addr, 1); {
		case p == nil:
			return Malformed(im.sectionAt(i)-im.WordSize(), "%s has sh_addr %#x, which is in no PT_LOAD",
				im.sectionText(i), s.Addr)
		case p.Off+(s.Addr-p.Vaddr) != s.Off:
			return Malformed(im.sectionAt(i), "%s has sh_offset %#x, and its address %#x is mapped to offset %#x",
				im.sectionText(i), s.Off, s.Addr, p.Off+(s.Addr-p.Vaddr))
		}
	}
	return nil
}

// SectionInFile returns an error if a section has bytes after the end of the file.
func (im *Image) SectionInFile(i int) error {
	if s := &im.Sections[i]; s.HasBytes() && (s.Off > im.size || s.Size > im.size-s.Off) {
		return Malformed(im.sectionAt(i), "%s has sh_offset %#x and sh_size %#x, outside the file of %d bytes",
			im.sectionText(i), s.Off, s.Size, im.size)
	}
	return nil
}

// segmentRanges compares program headers that describe bytes with the file's size, with
// what is mapped at their address, and PT_PHDR with the ELF header.
func (im *Image) segmentRanges() error {
	for i := range im.Progs {
		p, at := &im.Progs[i], im.Phoff+uint64(i)*im.PhdrSize()
		if a := p.Align; a&(a-1) != 0 {
			return Malformed(at, "%v has p_align %#x, not a power of two", p.Type, a)
		}
		if once := p.Type == elf.PT_PHDR || p.Type == elf.PT_INTERP ||
			p.Type == elf.PT_DYNAMIC; once && im.Prog(p.Type) != p {
			return Malformed(at, "a second %v", p.Type)
		}
		if p.Type == elf.PT_DYNAMIC && p.Memsz != p.Filesz {
			return Malformed(at, "PT_DYNAMIC has p_filesz %#x and p_memsz %#x", p.Filesz, p.Memsz)
		}
		if p.Type == elf.PT_PHDR {
			if n := uint64(len(im.Progs)) * im.PhdrSize(); p.Off != im.Phoff || p.Filesz != n || p.Memsz != n {
				return Malformed(at,
					"PT_PHDR has p_offset %#x, p_filesz %#x and p_memsz %#x, and the program headers are %#x bytes at %#x", p.Off,
					p.Filesz, p.Memsz, n, im.Phoff)
			}
		}
		if !p.HasBytes() {
			continue
		}
		if p.Filesz > im.size || p.Off > im.size-p.Filesz {
			return Malformed(at, "%v of %d bytes at %#x is outside the file of %d bytes", p.Type, p.Filesz, p.Off, im.size)
		}
		if p.Type == elf.PT_GNU_STACK {
			return Malformed(at, "PT_GNU_STACK has p_filesz %#x, and a stack has no bytes in a file", p.Filesz)
		}
		s := im.Segment(p.Vaddr, 1)
		if s == nil && p.Type == elf.PT_INTERP {
			return Malformed(at, "PT_INTERP is at address %#x, which is in no PT_LOAD", p.Vaddr)
		}
		if s != nil && (p.Vaddr != 0 || p.Type == elf.PT_INTERP) && p.Type != elf.PT_GNU_RELRO &&
			s.Off+(p.Vaddr-s.Vaddr) != p.Off {
			return Malformed(at, "%v has p_offset %#x, and its address %#x is mapped to offset %#x", p.Type, p.Off, p.Vaddr,
				s.Off+(p.Vaddr-s.Vaddr))
		}
	}
	return nil
}

// manyAllowed reports whether a dynamic section may have a tag more than once.
func manyAllowed(tag elf.DynTag) bool {
	return tag == elf.DT_NEEDED || tag == elf.DT_AUXILIARY || tag == elf.DT_FILTER
}

// dynamicEntries checks entries against each other, the string table, and sections of
// the same kind.
func (im *Image) dynamicEntries() error {
	valueAt := im.DynSize() / 2
	for i, d := range im.Dynamic {
		if _, sized := im.tableSize(d); sized && !manyAllowed(d.Tag) {
			if j := slices.IndexFunc(im.Dynamic[:i], func(e Dyn) bool { return e.Tag == d.Tag }); j >= 0 {
				return Malformed(d.Off, "%v is there twice, at %#x too", d.Tag, im.Dynamic[j].Off)
			}
		}
		switch d.Tag {
		case elf.DT_NEEDED, elf.DT_SONAME, elf.DT_RUNPATH, elf.DT_RPATH, elf.DT_AUXILIARY, elf.DT_FILTER:
			if _, err := im.DynText(d); err != nil {
				return err
			}
		case elf.DT_SYMENT:
			if d.Val != im.SymSize() {
				return Malformed(d.Off+valueAt, "DT_SYMENT is %d, not %d", d.Val, im.SymSize())
			}
		}
		n, sized := im.tableSize(d)
		if !sized || n == 0 {
			continue
		}
		if _, mapped := im.FileOffset(d.Val, n); !mapped {
			return Malformed(d.Off+valueAt, "%v: %d bytes at address %#x are in no PT_LOAD", d.Tag, n, d.Val)
		}
	}
	if im.StrSize > 0 {
		if b, err := im.Read(im.StrOff+im.StrSize-1, 1); err == nil && !bytes.Equal(b, []byte{0}) {
			d, _ := im.Dyn(elf.DT_STRSZ)
			return Malformed(d.Off+valueAt, "DT_STRSZ is %#x, and the string table does not end with a NUL there", im.StrSize)
		}
	}
	return nil
}

// tableSections compares the sections that dynamic entries point to with these.
func (im *Image) tableSections() error {
	for i := range im.Sections {
		s := &im.Sections[i]
		if p := im.Prog(elf.PT_DYNAMIC); s.Type == elf.SHT_DYNAMIC && s.Off == im.DynOff && s.Size != p.Filesz {
			return Malformed(im.sectionAt(i)+im.WordSize(), "%s has sh_size %#x, and PT_DYNAMIC has p_filesz %#x",
				im.sectionText(i), s.Size, p.Filesz)
		}
		tag, ok := tableOfSection(s.Type)
		if !ok || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		switch d, has := im.Dyn(tag); {
		case has && d.Val != s.Addr && tag != elf.DT_STRTAB && !im.isCopy(d, s):
			return Malformed(d.Off+im.DynSize()/2, "%v is %#x, and %s is at address %#x", tag, d.Val, im.sectionText(i), s.Addr)
		case has && d.Val == s.Addr && s.Size == 0:
			if n, _ := im.tableSize(d); n > 0 {
				return Malformed(im.sectionAt(i)+im.WordSize(), "%s has sh_size 0, and %v points to %d bytes there",
					im.sectionText(i), tag, n)
			}
		}
	}
	return nil
}

// isCopy reports whether a section is a copy of what a dynamic entry points to elsewhere. An edit that was killed
// between the headers and .dynamic leaves such a copy, in which symbols and versions may already be changed.
func (im *Image) isCopy(d Dyn, s *Section) bool {
	n, sized := im.tableSize(d)
	off, mapped := im.FileOffset(d.Val, n)
	if !sized || !mapped || n > s.Size || s.Off > im.size || n > im.size-s.Off {
		return false
	}
	if d.Tag == elf.DT_SYMTAB || d.Tag == elf.DT_VERSYM || d.Tag == elf.DT_VERNEED || d.Tag == elf.DT_VERDEF {
		return true
	}
	const piece = 4096
	for at := uint64(0); at < n; at += piece {
		a, err := im.Read(off+at, min(piece, n-at))
		b, err2 := im.Read(s.Off+at, uint64(len(a)))
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			return false
		}
	}
	return true
}

// tableOfSection returns the dynamic entry that points to a loaded section of a type.
func tableOfSection(t elf.SectionType) (elf.DynTag, bool) {
	for _, table := range TableSections {
		if table.Type == t {
			return table.Tag, true
		}
	}
	return 0, false
}

// rank orders owners by how much the loader depends on them. Of two that contradict each other, the later one is
// named.
func (im *Image) rank(o Owner) int {
	switch {
	case o.Kind == OfSection:
		return 4
	case o.Kind == OfSegment && im.Progs[o.Index].Type != elf.PT_DYNAMIC:
		return 3
	case o.Kind == OfDynamic:
		return 2
	case o.Kind == OfSegment:
		return 1
	}
	return 0
}

// described returns what an owner is called, and the offset of the field that says where it is.
func (im *Image) described(o Owner) (name string, at uint64) {
	switch o.Kind {
	case ProgramHeaders:
		return "the program headers", 24 + im.WordSize()
	case SectionHeaders:
		return "the section headers", 24 + 2*im.WordSize()
	case OfSection:
		if at = im.sectionAt(o.Index); im.Sections[o.Index].isZeros() { // .bss in the file; its address says where
			at -= im.WordSize()
		}
		return im.sectionText(o.Index), at
	case OfSegment:
		if p := &im.Progs[o.Index]; p.Type != elf.PT_DYNAMIC {
			return p.Type.String(), im.Phoff + uint64(o.Index)*im.PhdrSize()
		}
		return "PT_DYNAMIC", im.DynOff
	case OfDynamic:
		d, _ := im.Dyn(o.Tag)
		return o.Tag.String(), d.Off + im.DynSize()/2
	}
	return "the ELF header", 0
}

// overlaps looks for two that own the same bytes and cannot both have them.
func (im *Image) overlaps() error {
	const most = 1 << 20 // pairs: a hostile file has billions
	all, pairs := im.Owners(), 0
	for i, a := range all {
		for _, b := range all[i+1:] {
			if pairs++; b.Off >= a.End() || pairs > most {
				break
			}
			if im.share(a, b) {
				continue
			}
			if im.rank(a) > im.rank(b) {
				a, b = b, a
			}
			what, _ := im.described(a)
			name, at := im.described(b)
			return Malformed(at, "%s is %#x bytes at offset %#x and overlaps %s, %#x bytes at %#x", name, b.Size, b.Off, what,
				a.Size, a.Off)
		}
	}
	return nil
}

// share reports whether two owners of the same bytes go together: a section and what
// points to it, relocations of two kinds, notes in notes.
func (im *Image) share(a, b Owner) bool {
	if im.rank(a) > im.rank(b) {
		a, b = b, a
	}
	nested := a.Off >= b.Off && a.End() <= b.End() || b.Off >= a.Off && b.End() <= a.End()
	switch dynamic := im.rank(a) == 1; {
	case b.Kind == OfSection && dynamic:
		return im.Sections[b.Index].Type == elf.SHT_DYNAMIC
	case b.Kind == OfSection && a.Kind == OfDynamic:
		return nested && (!hasSectionType(a.Tag) || im.isTable(b.Index, a.Tag)) || im.isHole(b.Index)
	case b.Kind == OfSection && a.Kind == OfSegment, b.Kind == OfSegment && a.Kind == OfSegment && !dynamic:
		return nested
	case b.Kind == OfDynamic && a.Kind == OfDynamic:
		return nested && isRelocations(a.Tag) && isRelocations(b.Tag)
	}
	return false
}

// isHole reports whether a section is the one that an edit of a non-PIE program puts over the hole left by tables.
func (im *Image) isHole(section int) bool {
	s := &im.Sections[section]
	return im.Type == elf.ET_EXEC && s.Type == elf.SHT_PROGBITS && s.Addralign == 1 && im.SectionName(section) == "dynstr"
}

func isRelocations(tag elf.DynTag) bool {
	return tag == elf.DT_RELA || tag == elf.DT_REL || tag == elf.DT_JMPREL
}

// isTable reports whether a section has the type that goes with a dynamic entry.
func (im *Image) isTable(section int, tag elf.DynTag) bool {
	t, ok := tableOfSection(im.Sections[section].Type)
	return ok && t == tag
}

// hasSectionType reports whether an entry's table has a section type of its own.
func hasSectionType(tag elf.DynTag) bool {
	return slices.ContainsFunc(TableSections[:], func(t tableSection) bool { return t.Tag == tag })
}
