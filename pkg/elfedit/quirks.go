package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// What other tools leave and expect, beside what the gABI says, and what our own edits leave when
// they are killed. Each quirk is told here; what follows from it is decided where it says so.
//
//   - patchelf before 0.19 takes the hole that a moved table leaves in an ET_EXEC file for room that
//     it has, and breaks the program: a section stands over it (needsAnchor, anchor; patchelf's
//     rewriteSectionsExecutable).
//   - patchelf fills what it has moved away from with X, since 0.13 with Z (movingFor).
//   - "bun build --compile" lets a segment grow over what follows it in the file (isBun).
//   - llvm-strip takes a PT_INTERP or PT_NOTE that begins where the PT_LOAD does for its parent
//     and loses the PT_LOAD (segmentHead).
//   - GNU strip gives a PT_LOAD without a section an offset with which the file does not load
//     (readOnlySegments, dropNote).
//   - BOLT puts the program headers at the end of the file, away from the ELF header (header).
//   - An edit of ours that was stopped leaves section headers ahead of .dynamic (takeBack, isCover).

// takeBack lets section headers that are ahead of .dynamic say where the tables are that it
// points to: an edit that was stopped between the two had copied them elsewhere. What the
// loader reads counts, and the next edit begins there.
func (im *image) takeBack() {
	n := len(im.said)
	for n > 0 && isCover(&im.said[n-1]) {
		n--
	}
	im.taken, im.Sections = n < len(im.said), im.said[:n]
	for i := range im.Sections {
		s := im.said[i]
		for _, table := range elfimage.TableSections {
			if s.Type != table.Type || s.Flags&elf.SHF_ALLOC == 0 || table.Tag == elf.DT_STRTAB && i != im.StringSection() {
				continue
			}
			d, ok := im.Dyn(table.Tag)
			size := s.Size
			if table.Tag == elf.DT_STRTAB {
				size = im.StrSize
			}
			off, mapped := im.FileOffset(d.Val, size)
			if !ok || !mapped || d.Val == s.Addr {
				continue
			}
			if &im.Sections[0] == &im.said[0] {
				im.taken, im.Sections = true, slices.Clone(im.Sections)
			}
			now := &im.Sections[i]
			now.Off, now.Addr, now.Size = off, d.Val, size
		}
	}
	if anchor := im.anchorSection(); im.taken && anchor >= 0 {
		im.Sections[anchor].Size = 0
	}
}

// Stopped reports whether an edit of a file was stopped between the write that switches the headers
// and the one that takes the sections for that time away again: the file loads, and any edit, of
// nothing too, finishes it. im has its section headers.
func Stopped(im *elfimage.Image) bool {
	n := len(im.Sections)
	return n > 0 && isCover(&im.Sections[n-1])
}

// isCover reports whether a section is one of coverOf's, of an edit that has stopped.
func isCover(s *elfimage.Section) bool {
	return s.NameOff == 0 && *s == coverOf(s.Off, s.Addr, s.Size)
}

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
		if s.Type == elf.SHT_PROGBITS && s.Flags == elf.SHF_ALLOC && s.Addralign == 1 && s.Entsize == 0 && im.sectionNamed(i, anchorName) {
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
	if i := im.StringSection(); i < 0 || !im.sectionNamed(i, "."+anchorName) {
		return false
	}
	first := -1
	for i := range im.Sections {
		if s := &im.Sections[i]; s.HasBytes() && (first < 0 || s.Off < im.Sections[first].Off) {
			first = i
		}
	}
	return im.Sections[first].Type != elf.SHT_PROGBITS || im.sectionNamed(first, ".interp")
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

// isBun reports whether "bun build --compile" will let the segment that holds its section grow
// over what follows it in the file: it takes only sections along that are not loaded.
func (im *image) isBun() bool {
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type == elf.SHT_PROGBITS && s.Size == 8 && s.Flags == elf.SHF_ALLOC|elf.SHF_WRITE && im.sectionNamed(i, ".bun") {
			return true
		}
	}
	return false
}
