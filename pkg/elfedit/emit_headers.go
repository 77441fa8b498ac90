package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// headers are the writes of headers: first those that switch what the layout does before .dynamic, cover
// what lets strip keep it, then those that only .dynamic's switch allows.
type headers struct{ first, cover, then, cut []write }

// headers returns them. Between the two, strip has to find what .dynamic refers to, old and new, and it keeps of a
// file what has a section.
func (p *planner) headers(l *layout, alone bool) (h headers, err error) {
	im := p.im
	same := l.shoff == im.Shoff && len(l.sections) == len(im.Sections)
	switch {
	case l.record.size == 0:
		if !same || p.goal.osabi != nil || !slices.Equal(l.progs, im.Progs) {
			progs := l.progs
			if !alone || len(im.sectionWrites(l)) > 0 {
				progs = p.marked(l)
			}
			h.first, err = p.header(progs, l.shoff, len(l.sections))
		}
		if same {
			h.cover = im.sectionWrites(l)
		}
	case l.wider > 0: // in place: a section over what is new, and then the new one
		h.first, err = p.header(p.marked(l), im.Shoff, len(im.Sections))
		wide := im.Sections[l.wide]
		wide.Size += l.wider
		h.cover = []write{im.sectionsAt(im.Shoff, l.wide, wide)}
		if !same {
			if err == nil {
				h.then, err = p.fileHeader(len(l.progs), l.shoff, len(l.sections))
			}
			return h, err
		}
		first, last := p.changedSections(l, l.wide)
		h.then = []write{im.sectionsAt(im.Shoff, first, l.sections[first:last+1]...)}
	case l.lent != nil:
		shoff, n := im.Shoff, len(im.Sections)
		if n > 0 {
			shoff, n = p.coverNew(l)
		}
		if h.first, err = p.header(l.mark(im.CopyProgs(l.lent, 0)), shoff, n); err == nil {
			h.then, err = p.header(p.marked(l), l.shoff, len(l.sections))
		}
	default:
		covers := p.coversOld(l)
		if len(covers) == 0 {
			h.first, err = p.header(p.marked(l), l.shoff, len(l.sections))
			return h, err
		}
		shoff, n := alignUp(l.size, 8), len(l.sections)+len(covers)
		l.fresh = append(l.fresh, im.sectionsAt(shoff, 0, append(im.CopySections(l.sections, len(covers)), covers...)...))
		h.cut = []write{{off: l.size, cut: true}}
		if h.first, err = p.header(p.marked(l), shoff, n); err == nil {
			h.then, err = p.fileHeader(len(l.progs), l.shoff, len(l.sections))
		}
	}
	return h, err
}

// sectionsAt is the write of section headers, from the one with an index on, of a table at an offset.
func (im *image) sectionsAt(shoff uint64, first int, sections ...elfimage.Section) write {
	b := im.Alloc(uint64(len(sections)) * im.ShdrSize())
	im.encodeSections(b, sections)
	return write{off: shoff + uint64(first)*im.ShdrSize(), data: b}
}

// progAt is the write of a program header in its place.
func (im *image) progAt(i int, q elfimage.Prog) write {
	b := im.Alloc(im.PhdrSize())
	im.EncodeProg(b, q)
	return write{off: im.Phoff + uint64(i)*im.PhdrSize(), data: b}
}

func (im *image) encodeSections(b []byte, sections []elfimage.Section) {
	for i, s := range sections {
		im.EncodeSection(b[uint64(i)*im.ShdrSize():], s)
	}
}

// coverNew lets section headers for the time until .dynamic is switched be those of before, and one more over all of
// the new segment; a resolution note in it has its own already. It returns where they are, and how many.
func (p *planner) coverNew(l *layout) (shoff uint64, n int) {
	im := p.im
	q := l.mark(im.CopyProgs(l.lent, 0))[l.owner(l.lent)]
	all := im.CopySections(im.Sections, 3)
	from := q.Vaddr
	if note := l.note; note != nil && note.fresh {
		all[im.Shstrndx] = l.sections[im.Shstrndx] // which has its name
		all = append(all, l.sections[note.section])
		if note.hole >= 0 {
			all = append(all, l.sections[note.hole])
		}
		all = append(all, coverOf(q.Off, q.Vaddr, note.addr-q.Vaddr))
		from = note.addr + note.size
	}
	all = append(all, coverOf(q.Off+from-q.Vaddr, from, q.Vaddr+q.Filesz-from))
	b := l.written(l.heads.off, l.heads.size)
	if l.heads.size == im.ShdrSize() { // one more than those that end the file
		im.EncodeSection(b, all[len(im.Sections)])
		return im.Shoff, len(all)
	}
	im.encodeSections(b, all)
	return l.heads.off, len(all)
}

// coversOld are sections over the old places of what .dynamic refers to until it is switched, where a segment grows
// or is elsewhere in the file. There are none where all switches at once, and behind appended data, which is to
// end the file.
func (p *planner) coversOld(l *layout) (covers []elfimage.Section) {
	im := p.im
	if l.dynamic != nil || l.relocated == nil || len(l.sections) == 0 || im.imageEnd() < im.size ||
		len(l.sections)+2*len(l.moved)+2 >= int(elf.SHN_LORESERVE) {
		return nil
	}
	add := func(off, addr, size uint64) {
		for end := off + size; off < end; { // but what has a section, such as the hole's
			at, next := end, end
			for _, s := range l.sections {
				if s.HasBytes() && s.Flags&elf.SHF_ALLOC != 0 && s.Off < at && off < s.Off+s.Size {
					at, next = max(s.Off, off), s.Off+s.Size
				}
			}
			if at > off {
				covers = append(covers, coverOf(off, addr, at-off))
			}
			off, addr = next, addr+next-off
		}
	}
	for _, b := range l.moved {
		if b.dynamic {
			add(b.off, b.addr, b.size)
		}
	}
	if l.table.addr != im.StrAddr {
		add(im.StrOff, im.StrAddr, im.StrSize)
	}
	return covers
}

// coverOf is a section for the time of an edit, without a name.
func coverOf(off, addr, size uint64) elfimage.Section {
	return elfimage.Section{Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Off: off, Addr: addr, Size: size, Addralign: 1}
}

// isCover reports whether a section is one of coverOf's.
func isCover(s *elfimage.Section) bool {
	return s.Type == elf.SHT_PROGBITS && s.Flags == elf.SHF_ALLOC && s.Addralign == 1 && s.Link == 0 && s.Info == 0 &&
		s.Entsize == 0
}

// changedSections returns the first and the last section header that changes, or is the one with an index; -1: there is
// none.
func (p *planner) changedSections(l *layout, also int) (first, last int) {
	first, last = -1, -1
	for i := range min(len(l.sections), len(p.im.Sections)) {
		if l.sections[i] == p.im.Sections[i] && i != also {
			continue
		}
		if last = i; first < 0 {
			first = i
		}
	}
	return first, last
}

// sectionWrites are the section headers that change where they are.
func (im *image) sectionWrites(l *layout) []write {
	if l.shoff != im.Shoff || len(l.sections) > len(im.Sections) {
		return nil // they are among what is new
	}
	var out []write
	for i := 0; i < len(l.sections); i++ {
		first := i
		for i < len(l.sections) && l.sections[i] != im.Sections[i] { // neighbours change together
			i++
		}
		if i > first {
			out = append(out, im.sectionsAt(im.Shoff, first, l.sections[first:i]...))
		}
	}
	return out
}

// owner returns the index of the segment that has the flag while the edit is under way: the one after whose end the
// record is, or else one that holds the string table, or any.
func (l *layout) owner(progs []elfimage.Prog) int {
	any := -1
	for i := range progs {
		q := &progs[i]
		if q.Type != elf.PT_LOAD || q.Filesz == 0 {
			continue
		}
		if l.record.size > 0 && q.Vaddr+q.Filesz == l.record.addr {
			return i
		}
		if any < 0 || l.table.addr-q.Vaddr < q.Filesz {
			any = i
		}
	}
	return any
}

// mark gives that segment of progs the flag, and lets it hold the record.
func (l *layout) mark(progs []elfimage.Prog) []elfimage.Prog {
	if i := l.owner(progs); i >= 0 {
		q := &progs[i]
		q.Flags |= elfimage.Editing
		if l.record.size > 0 && q.Vaddr+q.Filesz == l.record.addr {
			q.Flags |= recorded
			q.Filesz += l.record.size
			q.Memsz += l.record.size
		}
	}
	return progs
}

// marked are the program headers of the layout while the edit is under way.
func (p *planner) marked(l *layout) []elfimage.Prog { return l.mark(p.im.CopyProgs(l.progs, 0)) }

// flag gives the program header that says that an edit is not finished the flag, or takes it, and the room of the
// record, away.
func (p *planner) flag(l *layout, progs []elfimage.Prog, on bool) []write {
	im, i := p.im, l.owner(progs)
	if i < 0 { // nothing is loaded
		return nil
	}
	q := progs[i]
	if on {
		q.Flags |= elfimage.Editing
	}
	return []write{im.progAt(i, q)}
}

// atOnce reports whether writes are one at most, which no kill tears.
func atOnce(steps ...[]write) bool {
	n := 0
	for _, some := range steps {
		for _, w := range some {
			n++
			if !samePage(w.off, w.len()) {
				n++
			}
		}
	}
	return n <= 1
}
