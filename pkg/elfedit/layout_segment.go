package elfedit

import (
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// segmentHead is the number of bytes of a new segment before its first section. llvm-strip takes a PT_INTERP or
// PT_NOTE at the beginning of a PT_LOAD for its parent, and loses the PT_LOAD.
const segmentHead = 64

// inLastSegment makes the segment that the string table ends grow together with the table, if that segment is the
// last in memory. It is mostly an earlier edit's.
func (p *planner) inLastSegment() (*layout, error) {
	im := p.im
	seg := im.Segment(im.StrAddr, im.StrSize)
	if seg == nil {
		return nil, nil
	}
	if ends, err := p.endsSegment(seg); !ends || err != nil {
		return nil, err
	}
	const most = 64 << 10 // so many bytes after it may become part of the table
	r, err := p.relocatable()
	end := seg.Off + seg.Filesz
	if err != nil || &im.Progs[r.seg] != seg || seg.Filesz != seg.Memsz || im.size > end+most || im.Phoff > end {
		return nil, nil //nolint:nilerr // then in a new one
	}
	return p.inSegment(p.asItIs(), moves{headerPlace: headerPlace{null: -1, relocated: r}, table: true, grows: true})
}

// inNewSegment appends a PT_LOAD to the file, with the string table, its room, and whatever is in the way of the
// growing program header table. That table stays in place, because strip and objcopy write it back after the ELF
// header, and kernels before 5.18 compute AT_PHDR from e_phoff. If it cannot grow, the last segment becomes longer
// instead: see relocation.
func (p *planner) inNewSegment() (*layout, error) {
	l := p.asItIs()
	m, err := p.moves(l)
	if err != nil {
		return nil, err
	}
	for _, b := range m.moving {
		if s := p.spot; s != nil && b.off < s.off+s.size && s.off < b.end() { // which moves, too
			p.spot, p.newNote = nil, true
			return p.inNewSegment()
		}
	}
	return p.inSegment(l, m)
}

// inSegment lays out what moves in a segment at the end of the file.
func (p *planner) inSegment(l *layout, m moves) (*layout, error) {
	im := p.im
	t, err := p.trailer(l)
	if err != nil {
		return nil, err
	}
	// .dynamic may be added
	n := &newSegment{p: p, t: t, l: l, moves: m, blocks: take(&im.work().blocks, len(m.moving)+1)}
	if m.relocated != nil {
		n.beginAt(m.relocated)
	} else {
		n.begin()
	}
	if l.note != nil && l.note.fresh {
		if err := n.addNote(); err != nil {
			return nil, err
		}
	}
	for rank := rankNote; rank < rankDynamic; rank++ {
		for i := range m.moving {
			if m.moving[i].rank == rank {
				if err := n.add(&m.moving[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	if m.dynamic {
		if err := n.addDynamic(); err != nil {
			return nil, err
		}
	}
	if m.grows {
		n.growTable()
	} else if err := p.anchor(t, m.tableEnd, m.moving, m.table); err != nil {
		return nil, err
	} else if m.table {
		table, err := im.readTable()
		if err != nil {
			return nil, err
		}
		n.addTable(table)
		l.dead = append(l.dead, p.deadTable(m.tableEnd)...)
	}
	if err := n.finish(); err != nil {
		return nil, err
	}
	for _, tag := range dynamicPointers {
		d, ok := im.Dyn(tag)
		for i := 0; i < len(n.blocks) && ok; i++ {
			if b := &n.blocks[i]; d.Val >= b.addr && d.Val < b.addr+b.size {
				l.tags = append(l.tags, elfimage.Dyn{Tag: tag, Val: d.Val - b.addr + b.newAddr})
			}
		}
	}
	for _, b := range n.blocks { // their old places become zeros, which a later edit counts as free
		if start := max(b.off, m.tableEnd); start < b.end() && !b.named {
			l.dead = append(l.dead, span{start, b.end() - start})
		}
	}
	if m.relocated != nil {
		l.followCopy(im)
	}
	return l, p.moveSymbols(l)
}

// moves is what moves into a new segment, or into the one that becomes longer.
type moves struct {
	headerPlace
	table   bool // the string table
	grows   bool // that grows where it is
	dynamic bool // .dynamic
}

// moves returns that for a layout. New strings that fit in the table's room are put there.
func (p *planner) moves(l *layout) (m moves, err error) {
	if m.headerPlace, err = p.headerPlace(l); err != nil {
		return m, err
	}
	if m.moving, err = p.alsoMoving(m.moving); err != nil {
		return m, err
	}
	m.dynamic = !p.goal.fits
	for _, b := range m.moving {
		if b.dynamic && b.off < m.tableEnd && !p.im.hasDynamic() { // as .MIPS.options of a static program
			return m, cannot("something would have to move in a file without a dynamic section to say where")
		}
		m.dynamic, m.table = m.dynamic || b.rank == rankDynamic, m.table || b.rank == rankStrings
	}
	if !m.table && len(p.goal.texts) > 0 {
		room, err := p.useRoom(l)
		if err != nil {
			return m, err
		}
		m.table = !room
	}
	return m, nil
}

// A headerPlace is what a layout needs for one more segment. It is a program header to replace, or blocks after the
// table that make room for one, or a segment that becomes longer instead.
type headerPlace struct {
	null      int // index of the program header that gives up its place, or -1
	relocated *relocation
	moving    []block
	tableEnd  uint64 // of the program headers afterwards
}

// headerPlace finds the cheapest one. The layout's program headers may be more than
// there are now.
func (p *planner) headerPlace(l *layout) (headerPlace, error) {
	im := p.im
	null := slices.IndexFunc(l.progs, func(q elfimage.Prog) bool { return q.Type == elf.PT_NULL })
	if p.goal.spare > 0 { // they are for somebody else
		null = -1
	}
	expendable := im.expendable()
	if p.sparing {
		expendable = -1
	}
	var first error
	var foreign *headerPlace // the last resort
	tries := []struct {
		ok         bool
		null, more int
		longer     bool // a segment
	}{
		{null >= 0, null, 0, false}, // an unused one saves the growth; MIPS linkers leave one
		{null < 0, -1, 1, false},
		{null < 0 && expendable >= 0, expendable, 0, false},
		{true, -1, 0, true},
	}
	if im.isBun() {
		slices.Reverse(tries)
	}
	for _, try := range tries {
		if !try.ok {
			continue
		}
		h := headerPlace{null: try.null, tableEnd: im.Phoff + uint64(len(l.progs)+try.more)*im.PhdrSize()}
		var err error
		if try.longer {
			h.relocated, err = p.relocatable()
		}
		if err == nil {
			h.moving, err = p.clear(h.tableEnd)
		}
		if err != nil && errors.As(err, new(*elfimage.FormatError)) {
			return h, err
		}
		switch {
		case err != nil && first == nil:
			first = err
		case err != nil && try.longer && err.Error() != first.Error():
			first = fmt.Errorf("%w; %w", first, err)
		case err != nil:
		case slices.ContainsFunc(h.moving, func(b block) bool { return b.foreign }):
			if foreign == nil {
				foreign = &h
			}
		default:
			return h, nil
		}
	}
	if foreign != nil {
		return *foreign, nil
	}
	return headerPlace{}, first
}

// tableFits reports whether a layout's program headers fit without moving anything, in the table's place or over
// unowned zeros after it.
func (p *planner) tableFits(l *layout) bool {
	im := p.im
	if len(l.progs) <= len(im.Progs) {
		return true
	}
	end := im.Phoff + uint64(len(l.progs))*im.PhdrSize()
	if im.anchorSection() >= 0 { // the anchor would have to become shorter
		return false
	}
	moving, err := p.movingFor(im.tableEnd(), end, nil)
	if err != nil || len(moving) > 0 {
		return false
	}
	im.fitTable(l.progs)
	return true
}

// alsoMoving adds to the blocks that make room for a program header those that a
// goal moves: a longer interpreter, and the version needs of a renamed library.
func (p *planner) alsoMoving(moving []block) ([]block, error) {
	im, g := p.im, p.goal
	add := func(off, size uint64, what string) error {
		if slices.ContainsFunc(moving, func(b block) bool { return b.off <= off && off+size <= b.end() }) {
			return nil
		}
		i := slices.IndexFunc(im.extents(), func(e extent) bool { return e.off <= off && off+size <= e.end() })
		if i < 0 {
			return cannot("%s at offset %#x cannot move", what, off)
		}
		b := block{extent: im.extents()[i]}
		im.members(&b)
		if at, ok := im.FileOffset(b.addr, b.size); !b.movable || !ok || at != b.off {
			return cannot("%s at offset %#x cannot move", what, off)
		}
		err := p.unreferenced(b)
		// libcap's __execable_dl_loader: the symbol goes along
		if text := im.interpText(); err != nil && b.off == text.off && b.size == text.size {
			b.named, err = true, nil
		}
		moving = append(moving, b)
		return err
	}
	if old := im.Prog(elf.PT_INTERP); g.interp != nil && !p.interpreterFits() {
		covered := func(b block) bool { return b.off <= old.Off && old.Off < b.end() }
		if own := im.interpSection(); own >= 0 && im.Sections[own].Off > old.Off && !slices.ContainsFunc(moving, covered) {
			s := &im.Sections[own]
			moving = append(moving, block{extent: extent{off: s.Off, size: s.Size, addr: s.Addr, align: 1, rank: rankInterp,
				movable: true}, sections: []int{own}})
		} else if err := add(old.Off, old.Filesz, "the interpreter"); err != nil {
			return nil, err
		}
	}
	return moving, nil
}

// clear returns the blocks that must move so that the program headers end at an offset. If it costs little, room for
// one more header is cleared as well. patchelf before 0.15 adds one and overwrites a section, because it stops
// looking at the first section header that points further on.
func (p *planner) clear(tableEnd uint64) ([]block, error) {
	from := p.im.tableEnd()
	if tableEnd <= from {
		return nil, nil
	}
	if (tableEnd-p.im.Phoff)/p.im.PhdrSize() >= 0xffff {
		return nil, cannot("%d program headers", len(p.im.Progs))
	}
	moving, err := p.movingFor(from, tableEnd, nil)
	if err != nil {
		return nil, err
	}
	if err := p.unreferenced(moving...); err != nil {
		return nil, err
	}
	const little = 4096 // bytes
	more, err := p.movingFor(from, tableEnd+p.im.PhdrSize(), moving)
	if err != nil {
		return moving, nil //nolint:nilerr // the room for the tables alone is known to be enough
	}
	further := more[len(moving):]
	for _, b := range further {
		if b.size > little || b.foreign {
			return moving, nil
		}
	}
	if p.unreferenced(further...) != nil {
		return moving, nil //nolint:nilerr // so these stay in place
	}
	return more, nil
}

// newSegment is the content of a new PT_LOAD as it takes shape.
type newSegment struct {
	p      *planner
	t      *trailer
	l      *layout
	off    uint64 // p_offset
	addr   uint64 // p_vaddr
	align  uint64
	data   []byte // from off on
	blocks []block
	interp *place // where the new interpreter is in it, or nil
	moves         // relocated: the segment that this is the end of; nil: it is a segment of its own
}

// begin chooses the place. In the file it is after everything, without padding. In memory it is above everything,
// .bss included, and congruent to the offset modulo the alignment.
func (n *newSegment) begin() {
	im := n.p.im
	top := uint64(0)
	n.align = elfimage.PageSize
	for i := range im.Progs {
		if q := &im.Progs[i]; q.Type == elf.PT_LOAD {
			top = max(top, q.Vaddr+q.Memsz)
			n.align = max(n.align, q.Align)
		}
	}
	const gap = 64 << 10 // if closer, eu-elflint takes the new sections for parts of the segment below
	n.off = alignUp(im.size, 16)
	n.addr = alignUp(top+gap, n.align) + n.off%n.align
	n.data = im.Alloc(segmentHead + im.StrSize + 32<<10)[:segmentHead]
}

// end returns the offset after what the segment has.
func (n *newSegment) end() uint64 { return n.off + uint64(len(n.data)) }

// reserve returns the place of size more bytes, whose offset is congruent to at modulo align.
func (n *newSegment) reserve(size, align, at uint64) place {
	off := n.end()
	if align > 1 {
		off += (at%align + align - off%align) % align
	}
	n.data = append(n.data, make([]byte, off+size-n.end())...)
	return place{off, n.addr + off - n.off, size}
}

// bytes returns the n bytes at an offset, to be filled in.
func (n *newSegment) bytes(off, size uint64) []byte { return n.data[off-n.off:][:size] }

// add moves a block into the segment.
func (n *newSegment) add(b *block) error {
	im, g := n.p.im, n.p.goal
	old := im.interpText()
	interp := g.interp != nil && b.off <= old.off && old.off < b.end()
	b.newSize = b.size
	if interp && uint64(len(*g.interp)) >= old.size {
		if old.end() != b.end() {
			return cannot("the interpreter at offset %#x cannot grow", old.off)
		}
		b.newSize += interpreterRoom(len(*g.interp)) - old.size
	}
	to := n.reserve(b.newSize, min(b.align, elfimage.PageSize), b.off)
	b.newOff, b.newAddr = to.off, to.addr
	n.blocks = append(n.blocks, *b)
	if err := elfimage.ReadFull(im, n.bytes(to.off, b.size), b.off); err != nil {
		return err
	}
	if interp {
		at := old.off - b.off
		n.interp = &place{to.off + at, to.addr + at, b.newSize - at - (b.end() - old.end())}
		text := n.bytes(n.interp.off, n.interp.size)
		clear(text)
		copy(text, *g.interp)
	}
	return nil
}

// interpText is the place of the interpreter's path. A linker script can make PT_INTERP begin with a note; then it is
// the section.
func (im *image) interpText() span {
	old := im.Prog(elf.PT_INTERP)
	if old == nil {
		return span{}
	}
	if i := im.interpSection(); i >= 0 {
		return span{im.Sections[i].Off, im.Sections[i].Size}
	}
	return span{old.Off, old.Filesz}
}

// interpreterRoom is the size in bytes of a PT_INTERP for a path of n bytes, with some room for a longer one. The
// kernel takes at most PATH_MAX.
func interpreterRoom(n int) uint64 {
	const least, most = 128, maxPath
	return max(uint64(n)+1, min(most, max(least, alignUp(uint64(n)+33, 16))))
}

// addDynamic makes room for the dynamic section with one more entry and its terminator.
func (n *newSegment) addDynamic() error {
	im := n.p.im
	old := im.Prog(elf.PT_DYNAMIC)
	b := &block{extent: extent{off: im.DynOff, size: old.Filesz, addr: old.Vaddr, rank: rankDynamic}}
	entries := len(n.p.goal.entries) + 1
	if n.t.tail > 0 { // for later entries, which would copy the appended data again
		entries += 6
	} else if !n.p.goal.onlyRunPath {
		entries += 3
	}
	b.newSize = uint64(entries) * im.DynSize()
	if err := n.p.unreferenced(*b); err != nil {
		return err
	}
	to := n.reserve(b.newSize, im.WordSize(), 0)
	b.newOff, b.newAddr = to.off, to.addr
	for i := range im.Progs {
		if im.Progs[i].Type == elf.PT_DYNAMIC {
			b.progs = append(b.progs, i)
		}
	}
	for i := range im.Sections {
		if s := &im.Sections[i]; s.Type == elf.SHT_DYNAMIC && s.Addr == b.addr {
			b.sections = append(b.sections, i)
		}
	}
	n.blocks = append(n.blocks, *b)
	n.l.dynamic = b
	return nil
}

// addTable puts the string table last, with room for later edits after it.
func (n *newSegment) addTable(table []byte) {
	at := n.reserve(0, 16, 0)
	n.room(at, append(n.data, table...), n.t.capacity(n.p.goal.blob))
}

// growTable extends the string table, which ends the relocated segment, with room. It adds as much as there was, so
// that growing stops soon. What the segment grows over is dead.
func (n *newSegment) growTable() {
	im, l, end := n.p.im, n.l, n.relocated.off+n.relocated.size
	n.room(place{n.relocated.at(im.StrOff, im.StrSize), im.StrAddr, 0}, n.data,
		max(n.t.capacity(n.p.goal.blob), 2*im.findRoom().size))
	if n.t.moving >= 0 && im.Sections[n.t.moving].Off >= end {
		s := &im.Sections[n.t.moving]
		l.dead = append(l.dead, span{s.Off, s.Size})
	}
	if size := uint64(len(im.Sections)) * im.ShdrSize(); size > 0 && im.Shoff >= end {
		l.dead = append(l.dead, span{im.Shoff, size})
	}
}

// room appends the new strings, and room for others, to data, which ends with the string table at a place.
func (n *newSegment) room(table place, data []byte, capacity uint64) {
	grown, at := appendRoom(data, n.p.goal.blob, capacity)
	n.data = grown
	table.size = n.addr + n.end() - n.off - table.addr
	n.l.strings = n.addr + at - table.addr
	n.l.moveStrings(n.p.im, table)
}

// finish lays out the trailer and the headers.
func (n *newSegment) finish() error {
	im, l := n.p.im, n.l
	if n.end() == n.off { // nothing but a program header is new
		n.reserve(16, 1, 0)
	}
	segment := elfimage.Prog{Type: elf.PT_LOAD, Flags: elf.PF_R, Off: n.off, Vaddr: n.addr, Align: n.align,
		Filesz: n.end() - n.off, Memsz: n.end() - n.off}
	if n.dynamic {
		segment.Flags |= elf.PF_W
	}
	if !im.Is64() && segment.Vaddr+segment.Memsz > math.MaxUint32 {
		return cannot("the 32-bit address space is full")
	}
	for _, b := range n.blocks {
		for _, i := range b.sections {
			s := &n.t.sections[i]
			switch {
			case b.rank == rankDynamic: // LIEF makes it larger than PT_DYNAMIC: it would overlap what follows now
				s.Size = b.newSize
			case s.Off+s.Size == b.end():
				s.Size += b.newSize - b.size
			}
			s.Off += b.newOff - b.off
			s.Addr += b.newAddr - b.addr
		}
	}
	if n.relocated != nil {
		n.relocateSections()
	}
	n.hold()
	trailing, err := n.t.write(im, l, n.end())
	if err != nil {
		return err
	}
	trailing[0] = write{off: n.off, data: append(n.data, trailing[0].data...)} // one write
	l.fresh = trailing
	l.moved = n.blocks
	progs := l.progs
	for _, b := range n.blocks {
		for _, i := range b.progs {
			q := &progs[i]
			if q.Type == elf.PT_NULL || l.note != nil && i == l.note.prog { // a note's, which goes or has moved
				continue
			}
			if q.Off+q.Filesz == b.end() {
				q.Filesz += b.newSize - b.size
				q.Memsz += b.newSize - b.size
			}
			q.Off += b.newOff - b.off
			q.Paddr += b.newAddr - b.addr
			q.Vaddr += b.newAddr - b.addr
		}
	}
	if at := n.interp; at != nil {
		for i := range progs {
			if q := &progs[i]; q.Type == elf.PT_INTERP {
				q.Paddr += at.addr - q.Vaddr
				q.Off, q.Vaddr, q.Filesz, q.Memsz = at.off, at.addr, at.size, at.size
			}
		}
	}
	if n.relocated != nil {
		if err := n.relocateProgs(progs); err != nil {
			return err
		}
	} else {
		l.progs = im.insert(progs, segment, n.null)
	}
	return nil
}

// insert returns the program headers with segment added after the last PT_LOAD, in ascending order of address as the
// gABI asks, and without entry drop (-1 for none).
func (im *image) insert(progs []elfimage.Prog, segment elfimage.Prog, drop int) []elfimage.Prog {
	last := 0
	for i := range progs {
		if progs[i].Type == elf.PT_LOAD {
			last = i
		}
	}
	// Physical addresses follow the linker's habit: equal to the virtual ones, or zero.
	if load := progs[last]; load.Paddr == load.Vaddr || load.Paddr != 0 {
		segment.Paddr = segment.Vaddr + (load.Paddr - load.Vaddr)
	}
	out := im.CopyProgs(nil, len(progs)+1)
	for i, q := range progs {
		if i != drop {
			out = append(out, q)
		}
		if i == last {
			out = append(out, segment)
		}
	}
	im.fitTable(out)
	return out
}

// unusedProgs counts the unused program headers.
func (im *image) unusedProgs() (n int) {
	for i := range im.Progs {
		if im.Progs[i].Type == elf.PT_NULL {
			n++
		}
	}
	return n
}

// fitTable makes PT_PHDR and the segment of the program headers hold all of them.
func (im *image) fitTable(progs []elfimage.Prog) {
	size := uint64(len(progs)) * im.PhdrSize()
	end := im.Phoff + size
	for i := range progs {
		// patchelf and objcopy together leave a segment that ends with the table.
		if q := &progs[i]; q.Type == elf.PT_LOAD && q.Off <= im.Phoff && im.Phoff < q.Off+q.Filesz && q.Off+q.Filesz < end &&
			q.Filesz == q.Memsz && im.addressRoom(q) >= end-q.Off-q.Filesz {
			q.Filesz, q.Memsz = end-q.Off, end-q.Off
		}
		if progs[i].Type == elf.PT_PHDR {
			progs[i].Filesz, progs[i].Memsz = size, size
		}
	}
}
