package image

import (
	"bytes"
	"cmp"
	"debug/elf"
	"math"
	"slices"
)

// eachUsed calls use with every range of the file, offset and size in bytes, that
// a header names.
func (im *Image) eachUsed(use func(start, size uint64)) {
	use(0, im.ehdrSize())
	use(im.phoff, uint64(len(im.Progs))*im.phdrSize())
	use(im.shoff, uint64(len(im.Sections))*im.shdrSize())
	for i := range im.Progs {
		use(im.Progs[i].Off, im.Progs[i].Filesz)
	}
	for i := range im.Sections {
		if s := &im.Sections[i]; s.inFile() {
			use(s.Off, s.Size)
		}
	}
}

// usedFrom returns the lowest offset at or above off at which something begins
// that a header names, or false where nothing does.
func (im *Image) usedFrom(off uint64) (uint64, bool) {
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
func (im *Image) imageEnd() uint64 {
	end := uint64(0)
	im.eachUsed(func(start, size uint64) { end = max(end, start+size) })
	return min(end, im.size)
}

// addressRoom returns how many bytes a segment can grow in memory before its
// last page meets the first page of the next one.
func (im *Image) addressRoom(seg *Prog) uint64 {
	end := seg.Vaddr + seg.Memsz
	limit := uint64(math.MaxUint64)
	if !im.is64() {
		limit = math.MaxUint32
	}
	for i := range im.Progs {
		p := &im.Progs[i]
		if p.Type == elf.PT_LOAD && p.Vaddr >= end && p != seg && p.Memsz > 0 {
			limit = min(limit, p.Vaddr&^(max(p.Align, pageSize)-1))
		}
	}
	if limit <= end {
		return 0
	}
	return limit - end
}

// paddingAfter returns how many bytes, all zero and at most want, follow a
// segment in file and memory before anything else does. A segment with which the
// file ends has no padding.
func (im *Image) paddingAfter(seg *Prog, want uint64) (uint64, error) {
	end := seg.Off + seg.Filesz
	next, ok := im.usedFrom(end)
	if !ok || seg.Filesz != seg.Memsz {
		return 0, nil
	}
	n := min(next-end, im.addressRoom(seg), want)
	b, err := im.read(end, n)
	if err != nil {
		return 0, err
	}
	return n - uint64(len(bytes.TrimLeft(b, "\x00"))), nil
}

// inPadding places the new run path in the zeros between the end of a segment and
// the next page: behind the string table where it ends its segment, else together
// with a copy of the whole table. The file does not grow.
func (p *planner) inPadding() (*placement, error) {
	list := p.change.List
	head := uint64(roomHead)
	own := p.im.segment(p.im.strtab, p.im.strsz)
	if own == nil { // it runs on into the next one
		return nil, nil
	}
	if p.im.strOff+p.im.strsz == own.Off+own.Filesz {
		pad, err := p.im.paddingAfter(own, head+roomFor(len(list)))
		if err != nil {
			return nil, err
		}
		if pad >= head+leastRoom(len(list)) {
			return p.extend(own, 0, pad)
		}
	}
	segs, err := p.readOnlySegments(own)
	if err != nil {
		return nil, err
	}
	for _, seg := range segs {
		pad, err := p.im.paddingAfter(seg, p.im.strsz+head+roomFor(len(list)))
		if err != nil {
			return nil, err
		}
		if pad >= p.im.strsz+head+leastRoom(len(list)) {
			return p.moveTable(seg, pad)
		}
	}
	return nil, nil
}

// readOnlySegments returns the string table's segment and then, unless that would
// be left empty, the others that are only read.
func (p *planner) readOnlySegments(own *Prog) ([]*Prog, error) {
	segs := []*Prog{own}
	if only, err := p.im.onlyStrings(); only >= 0 || err != nil {
		return segs, err
	}
	for i := range p.im.Progs {
		if s := &p.im.Progs[i]; s.Type == elf.PT_LOAD && s.Flags == elf.PF_R && s != own && s.Filesz > 0 {
			segs = append(segs, s)
		}
	}
	return segs, nil
}

// onlyStrings returns the index of the PT_LOAD that holds the string table and
// nothing else, or -1. GNU strip and objcopy give a PT_LOAD that no section is in an
// offset with which the file does not load, so the table must not leave it behind.
func (im *Image) onlyStrings() (int, error) {
	own := im.segment(im.strtab, im.strsz)
	if own == nil || own.Filesz != own.Memsz || own.Flags&elf.PF_X != 0 || len(im.Sections) == 0 {
		return -1, nil
	}
	in := func(off, size uint64) bool { return size > 0 && off < own.Off+own.Filesz && own.Off < off+size }
	strings, index := im.stringSection(), -1
	for i := range im.Sections {
		if s := &im.Sections[i]; i != strings && s.inFile() && in(s.Off, s.Size) {
			return -1, nil
		}
	}
	for i := range im.Progs {
		if p := &im.Progs[i]; p == own {
			index = i
		} else if in(p.Off, p.Filesz) {
			return -1, nil
		}
	}
	for _, d := range im.Dynamic {
		if d.Tag != elf.DT_STRTAB && d.Val >= own.Vaddr && d.Val < own.Vaddr+own.Memsz {
			return -1, nil
		}
	}
	// The rest must be padding. patchelf keeps the section headers in its segment.
	at := own.Off
	used := []span{{im.shoff, uint64(len(im.Sections)) * im.shdrSize()}, {im.strOff, im.strsz}, {own.Off + own.Filesz, 1}}
	slices.SortFunc(used, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	for _, u := range used {
		if u.off+u.size <= at {
			continue
		}
		if end, err := im.padding(at, min(u.off, own.Off+own.Filesz)); err != nil || end < min(u.off, own.Off+own.Filesz) {
			return -1, err
		}
		at = u.off + u.size
	}
	return index, nil
}

// padding returns the first offset in [from, end) that does not look unused, else
// end: unused are zeros and, where section headers tell what is used, the Xs and
// since 0.13 Zs that patchelf writes over what it has moved away.
func (im *Image) padding(from, end uint64) (uint64, error) {
	if end <= from {
		return end, nil
	}
	b, err := im.read(from, end-from)
	if err != nil {
		return 0, err
	}
	for i, c := range b {
		if c != 0 && (c != 'X' && c != 'Z' || len(im.Sections) == 0) {
			return from + uint64(i), nil
		}
	}
	return end, nil
}

// extend lets the table and its segment grow by n bytes. The first gap of them are
// what they are, the others are free.
func (p *planner) extend(seg *Prog, gap, n uint64) (*placement, error) {
	added, at := appendRoom(nil, p.change.List, n-gap-uint64(roomHead))
	size := p.im.strsz + n
	heads := append(p.sectionWrite(p.im.strOff, p.im.strtab, size), p.growSegment(seg, n))
	return &placement{
		strOff:   p.im.strsz + gap + at,
		prepare:  []write{{off: p.im.strOff + p.im.strsz + gap, data: added}},
		heads:    heads,
		early:    len(heads),
		tags:     map[elf.DynTag]uint64{elf.DT_STRSZ: size},
		size:     p.im.size,
		newTable: p.im.strOff,
	}, nil
}

// moveTable copies the table to the n zero bytes behind a segment.
func (p *planner) moveTable(seg *Prog, n uint64) (*placement, error) {
	old, err := p.readTable()
	if err != nil {
		return nil, err
	}
	table := append(p.im.bytes(n)[:0], old...)
	table, at := appendRoom(table, p.change.List, n-p.im.strsz-uint64(roomHead))
	off, addr := seg.Off+seg.Filesz, seg.Vaddr+seg.Filesz
	symbols, err := p.symbolWrites(nil, addr)
	if err != nil {
		return nil, err
	}
	heads := append(p.sectionWrite(off, addr, uint64(len(table))), p.growSegment(seg, n))
	return &placement{
		strOff:   at,
		prepare:  []write{{off: off, data: table}},
		heads:    heads,
		early:    len(heads),
		tags:     map[elf.DynTag]uint64{elf.DT_STRTAB: addr, elf.DT_STRSZ: uint64(len(table))},
		settle:   append(symbols, p.deadTable(0)...),
		size:     p.im.size,
		moved:    true,
		newTable: off,
		table:    table,
	}, nil
}

// growSegment writes a program header with n more bytes.
func (p *planner) growSegment(seg *Prog, n uint64) write {
	grown := *seg
	grown.Filesz += n
	grown.Memsz += n
	b := p.im.bytes(p.im.phdrSize())
	p.im.encodeProg(b, grown)
	for i := range p.im.Progs {
		if &p.im.Progs[i] == seg {
			return write{off: p.im.phoff + uint64(i)*p.im.phdrSize(), data: b}
		}
	}
	panic("segment of another image")
}

// sectionWrite gives the string table's section header, if there is one, a new
// place. That is written before .dynamic: an edit that was killed in between is done
// again, one that was killed behind it has nothing to do.
func (p *planner) sectionWrite(off, addr, size uint64) []write {
	i := p.im.stringSection()
	if i < 0 {
		return nil
	}
	s := p.im.Sections[i]
	s.Off, s.Addr, s.Size = off, addr, size
	b := p.im.bytes(p.im.shdrSize())
	p.im.encodeSection(b, s)
	return []write{{off: p.im.shoff + uint64(i)*p.im.shdrSize(), data: b}}
}

// deadTable zeroes the table that a moved one leaves behind, unless some other
// section lies over it. Names in it would else stay in the file for ever, also
// after another tool has changed them. What stands before offset from is in use
// again: the program headers grow into a table right behind them.
func (p *planner) deadTable(from uint64) []write {
	own := p.im.stringSection()
	for i := range p.im.Sections {
		s := &p.im.Sections[i]
		if i != own && s.inFile() && s.Off < p.im.strOff+p.im.strsz && p.im.strOff < s.Off+s.Size {
			return nil
		}
	}
	start, end := max(p.im.strOff, from), p.im.strOff+p.im.strsz
	if start >= end {
		return nil
	}
	return []write{{off: start, data: p.im.bytes(end - start)}}
}
