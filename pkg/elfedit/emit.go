package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// emit turns a layout into writes. It is the only place that knows their order; doc.go says why.
func (p *planner) emit(l *layout) (*Edit, error) {
	e := &Edit{im: p.im, size: int64(l.size)}
	if err := p.lendsLast(l); err != nil {
		return nil, err
	}
	if d := l.dynamic; d != nil {
		p.im.encodeEntries(l.written(d.newOff, d.newSize), l.entries)
	}
	if err := p.renameNeeds(l); err != nil {
		return nil, err
	}
	l.liveInCopies()
	if p.goal.cache != nil && (l.note == nil || l.note.said == 0) {
		l.silence(p.im, p.goal)
	}
	passed := l.silencePassed(p.goal)
	freshNote, firstNote, lastNote := p.noteWrites(l, len(l.switches) > 0)
	firstNote = append(passed, firstNote...)
	l.fresh = append(l.fresh, freshNote...)
	dead, err := p.scrubs(l)
	if err != nil {
		return nil, err
	}
	// One indivisible write of .dynamic (or a new one that the headers switch to)
	// leaves no state in which the new table is read with the old offset, so the
	// copy need not hold the old string at all.
	if l.copied {
		for _, s := range dead {
			clear(l.written(s.off, s.size))
		}
		dead = dead[:0]
	}
	dead = l.joined(append(dead, l.dead...))
	scrubs := make([]write, len(dead))
	for i, s := range dead {
		scrubs[i] = write{off: s.off, data: zero(s.size)}
	}
	alone := len(firstNote)+len(l.fresh)+len(l.live)+len(l.switches)+len(lastNote)+len(l.quiet)+len(scrubs) == 0 &&
		p.im.Phoff == p.im.EhdrSize() && samePage(0, p.im.tableEnd()+p.im.PhdrSize())
	h, err := p.headers(l, alone)
	if err != nil {
		return nil, err
	}
	var early, late, clean, down []write // the flag goes up, before what is fresh or after it, and down
	if l.record.size > 0 {
		if clean, err = p.putRecord(l, dead); err != nil {
			return nil, err
		}
		if len(firstNote) > 0 { // a note has to be silent before the headers switch
			late = p.flag(l, p.im.Progs, true)
		}
		down = p.flag(l, l.progs, false)
	} else if !atOnce(l.fresh, firstNote, h.first, h.cover, l.live, l.switches, h.then, lastNote, l.quiet, scrubs, h.cut) {
		early, down = p.flag(l, p.im.Progs, true), p.flag(l, l.progs, false)
	}
	e.prepared = len(early) + len(l.fresh)
	e.writes = slices.Concat(early, l.fresh, late, firstNote, h.first, h.cover, l.live, l.switches, h.then, lastNote,
		l.quiet, scrubs, h.cut,
		clean, down)
	for _, b := range l.moved {
		for _, i := range b.sections {
			if b.foreign && p.im.Sections[i].Type == elf.SHT_NOTE {
				e.moved = append(e.moved, p.im.SectionName(i))
			}
		}
	}
	return e, nil
}

// zero returns n zeros, which nobody may change.
func zero(n uint64) []byte {
	if n <= uint64(len(someZeros)) {
		return someZeros[:n:n]
	}
	return make([]byte, n)
}

var someZeros [256 << 10]byte // no memory until it is read, and then the kernel's one page of zeros

// header writes the ELF header and the program headers, in one piece where they
// are neighbours: both then change at once. The section headers are at shoff, so
// many of them.
func (p *planner) header(progs []elfimage.Prog, shoff uint64, sections int) ([]write, error) {
	im := p.im
	w, err := p.fileHeader(len(progs), shoff, sections)
	if err != nil {
		return nil, err
	}
	whole := w[0].data[:im.EhdrSize()+uint64(len(progs))*im.PhdrSize()]
	table := whole[im.EhdrSize():]
	for i, q := range progs {
		im.EncodeProg(table[uint64(i)*im.PhdrSize():], q)
	}
	if im.Phoff == im.EhdrSize() {
		w[0].data = whole
		return w, nil
	}
	return append([]write{{off: im.Phoff, data: table}}, w...), nil
}

// lendsLast lets a program header that the loader can do without be the last one where the ELF header is not the
// neighbour of the table, as BOLT leaves it: between the two writes the loader sees the new table without its last
// entry.
func (p *planner) lendsLast(l *layout) error {
	im := p.im
	if im.Phoff == im.EhdrSize() || len(l.progs) == len(im.Progs) {
		return nil
	}
	lent := lendable(l.progs, elfimage.Prog{})
	if lent < 0 {
		return cannot("the program header table at offset %#x cannot change together with the ELF header", im.Phoff)
	}
	last := l.progs[lent]
	l.progs = append(slices.Delete(l.progs, lent, lent+1), last)
	return nil
}

// fileHeader writes the ELF header with so many program headers, and the section headers at
// shoff, so many of them. There is room for the program headers after it.
func (p *planner) fileHeader(progs int, shoff uint64, sections int) ([]write, error) {
	im, w := p.im, p.im.WordSize()
	b := im.Alloc(im.EhdrSize() + uint64(progs)*im.PhdrSize())[:im.EhdrSize()]
	if err := elfimage.ReadFull(im, b, 0); err != nil {
		return nil, err
	}
	if p.goal.osabi != nil {
		b[elf.EI_OSABI] = *p.goal.osabi
	}
	if len(im.Sections) > 0 {
		im.PutWord(b[24+2*w:], shoff)
	}
	if sections != len(im.Sections) {
		im.Order.PutUint16(b[24+3*w+12:], uint16(sections)) // e_shnum, after e_phnum and e_shentsize
	}
	im.Order.PutUint16(b[24+3*w+8:], uint16(progs)) // after e_flags, e_ehsize, e_phentsize
	return []write{{data: b}}, nil
}

// renameNeeds gives version needs the names of other libraries, in the copy of their
// table, which nothing refers to before .dynamic does.
func (p *planner) renameNeeds(l *layout) error {
	for _, r := range p.goal.renames {
		val := r.Val
		if r.text >= 0 {
			val = l.strings + p.goal.textAt[r.text]
		}
		var word []byte
		for _, b := range l.moved {
			if r.at >= b.off && r.at+4 <= b.end() {
				word = l.written(b.newOff+r.at-b.off, 4)
			}
		}
		if word == nil {
			return cannot("the table of needed versions cannot move")
		}
		p.im.Order.PutUint32(word, uint32(val))
	}
	return nil
}
