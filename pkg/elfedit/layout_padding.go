package elfedit

import (
	"debug/elf"
	"math"

	"cuda-runpath/pkg/elfimage"
)

// eachUsed calls use with every range of the file, offset and size in bytes, that
// a header names.
func (im *image) eachUsed(use func(start, size uint64)) {
	use(0, im.EhdrSize())
	use(im.Phoff, uint64(len(im.Progs))*im.PhdrSize())
	use(im.Shoff, uint64(len(im.Sections))*im.ShdrSize())
	for i := range im.Progs {
		use(im.Progs[i].Off, im.Progs[i].Filesz)
	}
	for i := range im.Sections {
		if s := &im.Sections[i]; s.InFile() {
			use(s.Off, s.Size)
		}
	}
}

// usedFrom returns the lowest offset at or above off at which something begins
// that a header names, or false where nothing does.
func (im *image) usedFrom(off uint64) (uint64, bool) {
	next := uint64(math.MaxUint64)
	im.eachUsed(func(start, size uint64) {
		if size > 0 && start+size > off {
			next = min(next, max(start, off))
		}
	})
	return next, next != math.MaxUint64
}

// imageEnd returns the end of everything that a header names. What follows was
// appended by somebody else.
func (im *image) imageEnd() uint64 {
	end := uint64(0)
	im.eachUsed(func(start, size uint64) { end = max(end, start+size) })
	return min(end, im.size)
}

// addressRoom returns how many bytes a segment can grow in memory before its
// last page meets the first page of the next one.
func (im *image) addressRoom(seg *elfimage.Prog) uint64 {
	end := seg.Vaddr + seg.Memsz
	limit := uint64(math.MaxUint64)
	if !im.Is64() {
		limit = math.MaxUint32
	}
	for i := range im.Progs {
		p := &im.Progs[i]
		if p.Type == elf.PT_LOAD && p.Vaddr >= end && p != seg && p.Memsz > 0 {
			limit = min(limit, p.Vaddr&^(max(p.Align, elfimage.PageSize)-1))
		}
	}
	if limit <= end {
		return 0
	}
	return limit - end
}

// paddingAfter returns how many bytes, all zero and at most want, follow a
// segment in file and memory before anything else does. A segment with which the
// file ends has no padding. dead is how many of them, then all that there are, need not be zero: an edit
// left them that was killed before anything referred to it.
func (im *image) paddingAfter(seg *elfimage.Prog, want uint64) (n, dead uint64, err error) {
	end := seg.Off + seg.Filesz
	next, ok := im.usedFrom(end)
	if !ok || seg.Filesz != seg.Memsz {
		return 0, 0, nil
	}
	room := min(next-end, im.addressRoom(seg))
	n = min(room, want)
	b, err := im.Read(end, n)
	if err != nil {
		return 0, 0, err
	}
	zeros := uint64(leadingZeros(b))
	if zeros == n {
		return n, 0, nil
	}
	if b, err = im.Read(end, min(room, max(want, maxRecord))); err != nil {
		return 0, 0, err
	}
	r, at, size := readRecord(b)
	if r == nil || !isZero(b[at+size:]) || r.at != seg.Vaddr+seg.Filesz+uint64(at) || r.grown != seg.Vaddr ||
		r.was != seg.Filesz || r.size != im.size || r.old != im.dynamicSum(im.Dynamic) {
		return zeros, 0, nil
	}
	dead = uint64(at + size)
	return max(n, dead), dead, nil
}

// inPadding places the new strings in the zeros between the end of a segment and the next page,
// with a copy of the whole string table. The file does not grow: 805 of 1,192 libraries and programs of Debian 12 that
// get a driver link need no more; else each would have a PT_LOAD and about 4 KiB more.
func (p *planner) inPadding() (*layout, error) {
	list := p.goal.blob
	head := uint64(roomHead)
	own := p.im.Segment(p.im.StrAddr, p.im.StrSize)
	if own == nil { // it runs on into the next one
		return nil, nil
	}
	if p.im.needsAnchor() { // which takes new section headers
		return nil, nil
	}
	record := recordSpace(0, 0, 0)
	for _, seg := range p.readOnlySegments(own) {
		last := p.im.lastSection(seg)
		if last < 0 && len(p.im.Sections) > 0 {
			continue
		}
		pad, dead, err := p.im.paddingAfter(seg, p.im.StrSize+head+roomFor(len(list))+record)
		if err != nil {
			return nil, err
		}
		if pad >= p.im.StrSize+head+leastRoom(len(list))+record {
			p.free = []span{{seg.Off + seg.Filesz, dead}}
			return p.moveTable(seg, last, pad-record)
		}
	}
	return nil, nil
}

// lastSection returns the section that can be larger for the time of an edit, so that strip keeps what is put after
// the segment: the last one in it, of a type that no tool reads entry by entry; or -1.
func (im *image) lastSection(seg *elfimage.Prog) int {
	last, end := -1, uint64(0)
	for i := range im.Sections {
		if s := &im.Sections[i]; s.HasBytes() && s.Flags&elf.SHF_ALLOC != 0 && s.Off >= seg.Off &&
			s.Off+s.Size <= seg.Off+seg.Filesz && s.Off+s.Size > end {
			last, end = i, s.Off+s.Size
		}
	}
	if last >= 0 {
		switch im.Sections[last].Type {
		case elf.SHT_PROGBITS, elf.SHT_REL, elf.SHT_RELA, elf.SHT_STRTAB:
			return last
		}
	}
	return -1
}

// readOnlySegments returns the string table's segment and then the others that
// are only read, unless it would leave its own empty: GNU strip and objcopy give a
// PT_LOAD that no section is in an offset with which the file does not load.
func (p *planner) readOnlySegments(own *elfimage.Prog) []*elfimage.Prog {
	segs := append(make([]*elfimage.Prog, 0, 4), own)
	if p.im.onlyStrings(own) {
		return segs
	}
	for i := range p.im.Progs {
		if s := &p.im.Progs[i]; s.Type == elf.PT_LOAD && s.Flags == elf.PF_R && s != own && s.Filesz > 0 {
			segs = append(segs, s)
		}
	}
	return segs
}

// onlyStrings reports whether the string table is the only section in its segment.
func (im *image) onlyStrings(own *elfimage.Prog) bool {
	strings := im.StringSection()
	for i := range im.Sections {
		s := &im.Sections[i]
		if i != strings && s.Flags&elf.SHF_ALLOC != 0 && s.Size > 0 && s.Addr >= own.Vaddr && s.Addr < own.Vaddr+own.Memsz {
			return false
		}
	}
	return strings >= 0
}

// endsSegment reports whether the string table ends its segment, but for the few
// zeros with which patchelf rounds the size of its segment up.
func (p *planner) endsSegment(own *elfimage.Prog) (bool, error) {
	im, most := p.im, uint64(16)
	strings := im.StringSection()
	end := im.StrOff + im.StrSize
	rest := own.Off + own.Filesz - end
	if rest == 0 || rest > most || strings < 0 {
		return rest == 0, nil
	}
	for i := range im.Sections {
		if s := &im.Sections[i]; i != strings && s.Flags&elf.SHF_ALLOC != 0 && s.Addr+s.Size > im.StrAddr+im.StrSize &&
			s.Addr < own.Vaddr+own.Memsz {
			return false, nil
		}
	}
	return im.zeros(end, rest)
}

// moveTable copies the table to the n zero bytes after a segment, of which a section is the last, or -1. There is
// room for the record after them.
func (p *planner) moveTable(seg *elfimage.Prog, last int, n uint64) (*layout, error) {
	off, addr := seg.Off+seg.Filesz, seg.Vaddr+seg.Filesz
	skip := uint64(0)
	if i := p.im.StringSection(); i >= 0 { // patchelf aligns the table to words
		skip = alignUp(addr, min(p.im.Sections[i].Addralign, elfimage.PageSize)) - addr
	}
	if n < skip+p.im.StrSize+uint64(roomHead)+leastRoom(len(p.goal.blob)) {
		return nil, nil
	}
	old, err := p.im.readTable()
	if err != nil {
		return nil, err
	}
	l := p.asItIs()
	off, addr = off+skip, addr+skip
	record := recordSpace(0, 0, 0)
	table := append(p.im.Alloc(n + record)[:0], old...)
	table, at := appendRoom(table, p.goal.blob, n-skip-p.im.StrSize-uint64(roomHead))
	symbols, err := p.symbolWrites(nil, addr)
	if err != nil {
		return nil, err
	}
	l.moveStrings(p.im, place{off, addr, uint64(len(table))})
	l.grow(p.im, seg, n)
	l.strings = at
	l.record, l.was = place{off + uint64(len(table)), addr + uint64(len(table)), record}, seg.Filesz
	l.fresh = []write{{off: off, data: append(table, zero(record)...)}}
	if last >= 0 {
		s := &p.im.Sections[last]
		l.wide, l.wider = last, l.record.off+record-s.Off-s.Size
		if !p.sectionsAtOnce(l) {
			return nil, nil
		}
	}
	l.quiet = append(l.quiet, symbols...)
	l.dead = append(l.dead, p.deadTable(0)...)
	return l, nil
}

// sectionsAtOnce gives section headers that change in more than one page another place, at the end of the file. False
// where the file has data there that is not ELF.
func (p *planner) sectionsAtOnce(l *layout) bool {
	im := p.im
	first, end := p.changedSections(l, l.wide)
	if samePage(im.Shoff+uint64(first)*im.ShdrSize(), uint64(end-first+1)*im.ShdrSize()) {
		return true
	}
	if im.imageEnd() < im.size {
		return false
	}
	l.shoff = alignUp(im.size, 8)
	w := im.sectionsAt(l.shoff, 0, l.sections...)
	l.fresh = append(l.fresh, w)
	l.size = w.off + w.len()
	return true
}

// deadTable is the table that a moved one leaves behind, unless some other
// section overlaps it. Names in it would else stay in the file for ever, also
// after another tool has changed them. What comes before offset from is in use
// again: the program headers grow into a table right after them.
func (p *planner) deadTable(from uint64) []span {
	own := p.im.StringSection()
	for i := range p.im.Sections {
		s := &p.im.Sections[i]
		if i != own && s.InFile() && s.Off < p.im.StrOff+p.im.StrSize && p.im.StrOff < s.Off+s.Size {
			return nil
		}
	}
	start, end := p.im.StrOff, p.im.StrOff+p.im.StrSize
	if p.im.Phoff < start { // else another tool has moved the headers after it
		start = max(start, from)
	}
	if start >= end {
		return nil
	}
	return []span{{start, end - start}}
}
