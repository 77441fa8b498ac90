package elfedit

import (
	"bytes"
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// What other tools leave and expect, beside what the gABI says. Each quirk is described here, with the place where
// the code deals with it.
//
//   - patchelf before 0.19 takes the hole that a moved table leaves in an ET_EXEC file for room that
//     it has, and breaks the program: a section stands over it (needsAnchor, anchor; patchelf's
//     rewriteSectionsExecutable).
//   - patchelf 0.19 takes the program header of a resolution note away and leaves its bytes behind the last one that
//     e_phnum counts (staleEnd).
//   - patchelf fills what it has moved away from with X, since 0.13 with Z (filler).
//   - "bun build --compile" lets a segment grow over what follows it in the file (isBun).
//   - llvm-strip takes a PT_INTERP or PT_NOTE that begins where the PT_LOAD does for its parent
//     and loses the PT_LOAD (segmentHead).
//   - GNU strip and objcopy give a PT_LOAD without a section an offset with which the file does not load,
//     but the one with the ELF header. patchelf takes sections out of ours (hold, readOnlySegments, dropNote).
//   - BOLT puts the program headers at the end of the file, away from the ELF header (header).

// staleEnd returns the end of old program headers behind the table. Those that e_phnum no longer counts repeat one of
// the others, or say where a note is mapped. Nothing else looks like that by chance.
func (im *image) staleEnd() uint64 {
	end, size := im.tableEnd(), im.PhdrSize()
	const most = 8 // bounds what is read
	b, err := im.Read(end, min(most*size, im.size-min(im.size, end)))
	if err != nil || len(im.Sections) == 0 {
		return end
	}
	for ; uint64(len(b)) >= size; b = b[size:] {
		q := im.DecodeProg(b)
		at, mapped := im.FileOffset(q.Vaddr, q.Filesz)
		note := q.Type == elf.PT_NOTE && q.Flags == elf.PF_R && q.Filesz > 0 && q.Filesz == q.Memsz && mapped && at == q.Off
		if !note && (q.Type == elf.PT_NULL || !slices.Contains(im.Progs, q)) {
			break
		}
		end += size
	}
	return end
}

// holeName is a suffix of ".dynstr", so the section names hold it already.
const holeName = "dynstr"

// isHole reports whether an edit put a section over free bytes: see anchor and hold.
func (im *image) isHole(i int) bool {
	s := &im.Sections[i]
	return s.Type == elf.SHT_PROGBITS && s.Flags&^elf.SHF_WRITE == elf.SHF_ALLOC && s.Addralign == 1 && s.Entsize == 0 &&
		im.sectionNamed(i, holeName)
}

// newHole returns such a section. ok is false if there is no name for it.
func (im *image) newHole(off, addr, size uint64) (s elfimage.Section, ok bool) {
	i := im.stringSection()
	if i < 0 || !im.sectionNamed(i, "."+holeName) {
		return s, false
	}
	return elfimage.Section{NameOff: im.Sections[i].NameOff + 1, Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Off: off,
		Addr: addr, Size: size, Addralign: 1}, true
}

// anchorSection returns the index of the section that an earlier edit put over the
// hole after the program headers, or -1.
func (im *image) anchorSection() int {
	if im.Type != elf.ET_EXEC {
		return -1
	}
	for i := range im.Sections {
		if im.isHole(i) && !im.holds(i) {
			return i
		}
	}
	return -1
}

// holds reports whether a hole only gives its segment a section: it is not in the segment of the program headers.
func (im *image) holds(hole int) bool {
	s := &im.Sections[hole]
	return slices.ContainsFunc(im.Progs, func(q elfimage.Prog) bool {
		return q.Type == elf.PT_LOAD && s.Addr-q.Vaddr < q.Memsz && (q.Vaddr == s.Addr && q.Off > 0 ||
			im.Phoff-q.Off >= q.Filesz)
	})
}

// hold gives each segment that would have no section one over a hole. In the new segment it is over the first bytes,
// because other tools may take everything else away. In a segment that everything has moved out of, it is over the
// first of those bytes, which are zeros then.
func (n *newSegment) hold() {
	im, t := n.p.im, n.t
	add := func(off, addr, size uint64, writable bool) {
		s, ok := im.newHole(off, addr, size)
		if writable {
			s.Flags |= elf.SHF_WRITE
		}
		if ok {
			t.sections = append(t.sections, s)
		}
	}
	if n.relocated == nil {
		add(n.off, n.addr, segmentHead, n.dynamic)
	}
	for i := range im.Progs {
		q := &im.Progs[i]
		in := func(s elfimage.Section) bool {
			return s.Flags&elf.SHF_ALLOC != 0 && s.Size > 0 && s.Addr >= q.Vaddr && s.Addr < q.Vaddr+q.Memsz
		}
		if q.Type != elf.PT_LOAD || q.Off == 0 || slices.ContainsFunc(t.sections, in) {
			continue
		}
		first, free := slices.IndexFunc(im.Sections, in), q.Vaddr
		if end := im.Phoff + uint64(len(n.l.progs)+1)*im.PhdrSize(); q.Off > im.Phoff && end > q.Off {
			free += end - q.Off // the program headers have grown over its beginning
		}
		if first < 0 {
			continue
		}
		s := &im.Sections[first]
		if addr, end := max(s.Addr, free), s.Addr+s.Size; addr < end {
			add(n.relocated.at(q.Off+addr-q.Vaddr, end-addr), addr, end-addr, q.Flags&elf.PF_W != 0)
		}
	}
}

// needsAnchor reports whether patchelf would misuse the hole that a moved string table leaves. In an ET_EXEC file,
// patchelf moves everything from the program headers to the string table, or to the first SHT_PROGBITS section except
// .interp, to the front of the file (rewriteSectionsExecutable). That used to need more room than there was, and so a
// segment of its own. Without the table it may fit. Versions before 0.18 then write beyond the end of the first
// segment, and those before 0.19 put .dynamic where the loader cannot write to it.
func (im *image) needsAnchor() bool {
	if im.Type != elf.ET_EXEC || len(im.Sections)+1 >= int(elf.SHN_LORESERVE) {
		return false
	}
	if i := im.stringSection(); i < 0 || !im.sectionNamed(i, "."+holeName) {
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

// anchor gives the first hole that an edit leaves a section, at which patchelf stops. The hole is what is free after
// the program headers, which end at offset from, once some blocks have moved away. If nothing is free there, it is
// the old place of the string table, if that moves.
func (p *planner) anchor(t *trailer, from uint64, moved []block, table bool) error {
	im := p.im
	old := im.anchorSection()
	if old < 0 && !im.needsAnchor() {
		return nil
	}
	var free place
	for i := range im.Progs {
		if q := &im.Progs[i]; q.Type == elf.PT_LOAD && q.Off <= im.Phoff && from <= q.Off+q.Filesz {
			size, err := im.free(from, q.Off+q.Filesz, moved)
			if err != nil {
				return err
			}
			free = place{from, q.Vaddr + from - q.Off, size}
			break
		}
	}
	if old >= 0 {
		if s := &t.sections[old]; free.off > 0 {
			s.Off, s.Addr, s.Size = free.off, free.addr, free.size
		}
		return nil
	}
	if free.size == 0 && table && im.StrOff >= from && len(p.deadTable(0)) > 0 {
		free = place{im.StrOff, im.StrAddr, im.StrSize}
	}
	if s, ok := im.newHole(free.off, free.addr, free.size); ok && free.size > 0 {
		t.sections = append(t.sections, s)
	}
	return nil
}

// free returns how many bytes from an offset up to end are free once some blocks have moved away: the blocks' bytes,
// and what patchelf fills holes with.
func (im *image) free(from, end uint64, moved []block) (uint64, error) {
	at := max(from, im.staleEnd())
	filled := func(to uint64) (bool, error) {
		for at < to {
			if at = min(im.NextData(at), to); at == to {
				break
			}
			b, err := im.Read(at, min(to-at, 64<<10))
			n := filler(b)
			if at += uint64(n); n < len(b) || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	for _, b := range im.extents() {
		if b.end() <= at || b.off >= end {
			continue
		}
		if !slices.ContainsFunc(moved, func(m block) bool { return m.off == b.off && !m.named }) {
			end = max(b.off, from)
			break
		}
		if all, err := filled(b.off); !all || err != nil {
			return at - from, err
		}
		at = min(b.end(), end)
	}
	_, err := filled(end)
	return min(at, end) - from, err
}

// filler returns how many bytes b begins with that are zeros, or what patchelf fills holes with.
func filler(b []byte) int { return len(b) - len(bytes.TrimLeft(b, "\x00XZ")) }

// isBun reports whether "bun build --compile" will make the segment with its section grow over what follows in the
// file. It only moves sections that are not loaded.
func (im *image) isBun() bool {
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type == elf.SHT_PROGBITS && s.Size == 8 && s.Flags == elf.SHF_ALLOC|elf.SHF_WRITE && im.sectionNamed(i, ".bun") {
			return true
		}
	}
	return false
}
