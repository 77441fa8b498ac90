package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// anchorName is a suffix of ".dynstr", so that the section names hold it already.
const anchorName = "dynstr"

// anchorSection returns the index of the section that an earlier edit put over the
// hole after the program headers, or -1.
func (im *image) anchorSection() int {
	if im.Type != elf.ET_EXEC {
		return -1
	}
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type == elf.SHT_PROGBITS && s.Flags == elf.SHF_ALLOC && s.Addralign == 1 && s.Entsize == 0 && im.SectionNamed(i, anchorName) {
			return i
		}
	}
	return -1
}

// needsAnchor reports whether patchelf would mistake the hole that a moved string
// table leaves. In an ET_EXEC file it pulls everything from the program headers to
// the string table, or to the first SHT_PROGBITS section but .interp, to the front
// of the file (rewriteSectionsExecutable). What it pulled used to need more than
// was there, and so a segment of its own. With the table gone it may fit, and then
// versions before 0.18 write beyond the end of the first segment, and those before
// 0.19 put .dynamic where the loader cannot write to it.
func (im *image) needsAnchor() bool {
	if im.Type != elf.ET_EXEC || len(im.Sections)+1 >= int(elf.SHN_LORESERVE) {
		return false
	}
	if i := im.StringSection(); i < 0 || !im.SectionNamed(i, "."+anchorName) {
		return false
	}
	first := -1
	for i := range im.Sections {
		if s := &im.Sections[i]; s.HasBytes() && (first < 0 || s.Off < im.Sections[first].Off) {
			first = i
		}
	}
	return im.Sections[first].Type != elf.SHT_PROGBITS || im.SectionNamed(first, ".interp")
}

// named reports whether section i has that name, whatever the length of the one
// that it has.
func (im *image) SectionNamed(i int, name string) bool {
	return im.nameAt(im.Sections[i].NameOff, name)
}

// nameAt reports whether a name of sections is at an offset of their table.
func (im *image) nameAt(at uint32, name string) bool {
	if int(im.Shstrndx) >= len(im.Sections) {
		return false
	}
	t := &im.Sections[im.Shstrndx]
	off, n := uint64(at), uint64(len(name)+1)
	if !t.InFile() || t.Size < n || off > t.Size-n || t.Off > im.size {
		return false
	}
	b, err := im.Read(t.Off+off, n)
	return err == nil && string(b) == name+"\x00"
}

// anchor gives the first hole that an edit leaves a section, at which patchelf
// stops: what is free after the program headers, which end at offset from, once
// some blocks have moved away; where that is nothing, the place of the string table,
// if that moves.
func (p *planner) anchor(t *trailer, from uint64, moved []block, table bool) {
	im := p.im
	old := im.anchorSection()
	if old < 0 && !im.needsAnchor() {
		return
	}
	s := elfimage.Section{Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addralign: 1}
	for i := range im.Progs {
		if q := &im.Progs[i]; q.Type == elf.PT_LOAD && q.Off <= im.Phoff && from <= q.Off+q.Filesz {
			s.Off, s.Addr, s.Size = from, q.Vaddr+from-q.Off, im.hole(from, q.Off+q.Filesz, moved)
			break
		}
	}
	if old >= 0 {
		if s.Off > 0 {
			s.NameOff = im.Sections[old].NameOff
			t.sections[old] = s
		}
		return
	}
	if s.Size == 0 && table && im.StrOff >= from && len(p.deadTable(0)) > 0 {
		s.Off, s.Addr, s.Size = im.StrOff, im.StrAddr, im.StrSize
	}
	if s.Size > 0 {
		s.NameOff = im.Sections[im.StringSection()].NameOff + uint32(len("."))
		t.sections = append(t.sections, s)
	}
}

// hole returns how many bytes are free from an offset on, and not beyond end, once
// some blocks have moved away.
func (im *image) hole(from, end uint64, moved []block) uint64 {
	for _, b := range im.extents() {
		if b.end() > from && !slices.ContainsFunc(moved, func(m block) bool { return m.off == b.off && !m.named }) {
			end = min(end, max(b.off, from))
		}
	}
	return end - from
}
