package elfedit

import (
	"debug/elf"
	"math"

	"cuda-runpath/pkg/elfimage"
)

// eachUsed calls use with the offset and size in bytes of every range of the file that a header names.
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

// usedFrom returns the lowest offset, not below off, at which something that a header names begins, or false if
// nothing does.
func (im *image) usedFrom(off uint64) (uint64, bool) {
	next := uint64(math.MaxUint64)
	im.eachUsed(func(start, size uint64) {
		if size > 0 && start+size > off {
			next = min(next, max(start, off))
		}
	})
	return next, next != math.MaxUint64
}

// imageEnd returns the end of everything that a header names. Somebody else appended what follows.
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

// paddingAfter returns how many zero bytes, at most want, follow a segment in file and memory before anything else. A
// segment at the end of the file has no padding.
func (im *image) paddingAfter(seg *elfimage.Prog, want uint64) (uint64, error) {
	end := seg.Off + seg.Filesz
	next, ok := im.usedFrom(end)
	if !ok || seg.Filesz != seg.Memsz {
		return 0, nil
	}
	b, err := im.Read(end, min(next-end, im.addressRoom(seg), want))
	return uint64(leadingZeros(b)), err
}

// inPadding places the new strings in the zeros between the end of a segment and the next page, with a copy of the
// whole string table. The file does not grow. This is enough for 805 of 1,192 libraries and programs of Debian 12
// that get a driver link; else each would have another PT_LOAD and about 4 KiB more.
func (p *planner) inPadding() (*layout, error) {
	list := p.goal.blob
	own := p.im.Segment(p.im.StrAddr, p.im.StrSize)
	if own == nil { // it runs on into the next one
		return nil, nil
	}
	if p.im.needsAnchor() { // an anchor takes new section headers
		return nil, nil
	}
	for _, seg := range p.readOnlySegments(own) {
		pad, err := p.im.paddingAfter(seg, p.im.StrSize+uint64(roomHead)+roomFor(len(list)))
		if err != nil {
			return nil, err
		}
		if l, err := p.moveTable(seg, pad); l != nil || err != nil {
			return l, err
		}
	}
	return nil, nil
}

// readOnlySegments returns the string table's segment and then the other read-only ones. The others are left out if
// the table would leave its own segment empty. GNU strip and objcopy give a PT_LOAD without a section an offset with
// which the file does not load.
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
	strings := im.stringSection()
	for i := range im.Sections {
		s := &im.Sections[i]
		if i != strings && s.Flags&elf.SHF_ALLOC != 0 && s.Size > 0 && s.Addr >= own.Vaddr && s.Addr < own.Vaddr+own.Memsz {
			return false
		}
	}
	return strings >= 0
}

// endsSegment reports whether the string table ends its segment, apart from the few zeros with which patchelf rounds
// up the segment's size.
func (p *planner) endsSegment(own *elfimage.Prog) (bool, error) {
	im, most := p.im, uint64(16)
	strings := im.stringSection()
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

// moveTable copies the table to the n zero bytes after a segment.
func (p *planner) moveTable(seg *elfimage.Prog, n uint64) (*layout, error) {
	off, addr := seg.Off+seg.Filesz, seg.Vaddr+seg.Filesz
	skip := uint64(0)
	if i := p.im.stringSection(); i >= 0 { // patchelf aligns the table to words
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
	table := append(p.im.Alloc(n)[:0], old...)
	table, l.strings = appendRoom(table, p.goal.blob, n-skip-p.im.StrSize-uint64(roomHead))
	l.moveStrings(p.im, place{off + skip, addr + skip, uint64(len(table))})
	l.grow(p.im, seg, n)
	l.fresh = []write{{off: off + skip, data: table}}
	l.dead = append(l.dead, p.deadTable(0)...)
	return l, p.moveSymbols(l)
}

// deadTable is the old copy of a moved table, unless another section overlaps it. Otherwise names in it would stay in
// the file for ever, even after another tool has changed them. What is before offset from is in use again, because
// the program headers grow into a table right after them.
func (p *planner) deadTable(from uint64) []span {
	own := p.im.stringSection()
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
