package elfedit

import (
	"bytes"
	"cmp"
	"debug/elf"
	"math"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// segmentHead is the number of bytes of a new segment before its first section:
// llvm-strip takes a PT_INTERP or PT_NOTE that begins where the PT_LOAD does for
// its parent and loses the PT_LOAD.
const segmentHead = 64

// A trailer is what stands behind the last segment: sections that are not loaded,
// the section headers, and what somebody appended to the file.
type trailer struct {
	sections []elfimage.Section // with their new places
	moving   []int              // indices of those that move along, by offset
	tailOff  uint64             // where appended data begins now
	tail     uint64             // its size, bytes
}

const maxMoving = 64 << 10 // sections that move along, bytes in all

// trailer describes what has to follow a segment that is to end the file, with the
// sections that stand behind offset end now.
func (p *planner) trailer(end uint64) (*trailer, error) {
	im := p.im
	t := &trailer{sections: append([]elfimage.Section(nil), im.Sections...), tailOff: im.imageEnd()}
	left := uint64(maxMoving)
	for i := range im.Sections {
		s := &im.Sections[i]
		// patchelf insists on a section behind the string table in an ET_EXEC file
		// (rewriteSectionsExecutable), so the section names go with the headers.
		names := i == int(im.Shstrndx) && s.Type == elf.SHT_STRTAB
		if (names || s.Off >= end) && s.HasBytes() && s.Flags&elf.SHF_ALLOC == 0 && s.Addralign <= 64 &&
			s.Size <= min(left, im.size) && s.Off <= im.size-s.Size {
			t.moving = append(t.moving, i)
			left -= s.Size
		}
	}
	slices.SortFunc(t.moving, func(i, j int) int { return cmp.Compare(im.Sections[i].Off, im.Sections[j].Off) })
	zero, err := im.zeros(t.tailOff, im.size-t.tailOff)
	if err != nil {
		return nil, err
	}
	if !zero {
		t.tail = im.size - t.tailOff
	}
	return t, nil
}

// zeros reports whether n bytes at off are all zero.
func (im *image) zeros(off, n uint64) (bool, error) {
	buf := im.Bytes(min(n, 64<<10))
	for n > 0 {
		b := buf[:min(n, uint64(len(buf)))]
		if err := elfimage.ReadFull(im, b, off); err != nil {
			return false, err
		}
		if len(bytes.Trim(b, "\x00")) > 0 {
			return false, nil
		}
		off, n = off+uint64(len(b)), n-uint64(len(b))
	}
	return true, nil
}

// write lays the trailer out behind offset end. It returns its bytes, which follow
// end directly, the new e_shoff and the size of the whole file; appended data comes
// as a copy, so that it is found from its old offset as well as from the end.
func (t *trailer) write(im *image, end uint64) (data []byte, copied *write, shoff, size uint64, err error) {
	at := end
	for _, i := range t.moving {
		s := &t.sections[i]
		s.Off = alignUp(at, s.Addralign)
		at = s.Off + s.Size
	}
	if len(t.sections) > 0 {
		shoff = alignUp(at, 8)
		at = shoff + uint64(len(t.sections))*im.ShdrSize()
	}
	data = im.Bytes(at - end)
	for _, i := range t.moving {
		s := &t.sections[i]
		if err := elfimage.ReadFull(im, data[s.Off-end:][:s.Size], im.Sections[i].Off); err != nil {
			return nil, nil, 0, 0, err
		}
	}
	for i, s := range t.sections {
		im.EncodeSection(data[shoff-end+uint64(i)*im.ShdrSize():], s)
	}
	size = at
	if t.tail > 0 {
		copied = &write{off: size, from: t.tailOff, n: t.tail}
	}
	size += t.tail
	if !im.Is64() && size > math.MaxUint32 {
		return nil, nil, 0, 0, cannot("the file would pass 4 GiB")
	}
	return data, copied, shoff, size, nil
}

// inLastSegment lets the segment that ends the file grow where the string table
// ends it: only little that is not loaded stands behind it, and that moves on.
func (p *planner) inLastSegment() (*placement, error) {
	im := p.im
	seg := im.Segment(im.StrAddr, im.StrSize)
	if seg == nil || seg.Filesz != seg.Memsz {
		return nil, nil
	}
	if ends, err := p.endsSegment(seg); !ends || err != nil {
		return nil, err
	}
	end := seg.Off + seg.Filesz
	for i := range im.Progs {
		if q := &im.Progs[i]; q.Type == elf.PT_LOAD && q.Vaddr > seg.Vaddr || q.Off+q.Filesz > end && q.Filesz > 0 {
			return nil, nil
		}
	}
	t, err := p.trailer(end)
	if err != nil {
		return nil, err
	}
	for i := range im.Sections {
		if s := &im.Sections[i]; s.HasBytes() && s.Off+s.Size > end && !slices.Contains(t.moving, i) {
			return nil, nil
		}
	}
	if im.Phoff > end {
		return nil, nil
	}
	const most = 64 << 10 // appended data that is worth a move of the same distance
	if t.tail > most {
		return nil, nil
	}
	// By at least what stands behind, so that the new copies lie beyond the old
	// end of the file and a failed write can be taken back; and by as much again
	// as the room had, so that growing stops soon.
	n := max(uint64(roomHead)+roomFor(len(p.change.List)), im.size-end)
	if r, ok, err := p.findRoom(); err != nil {
		return nil, err
	} else if ok {
		n = max(n, 2*r.size)
	}
	gap := uint64(0)
	if t.tail > 0 { // appended data is found at its old offset as well: the table takes it in
		gap = im.size - end
		n += gap
	}
	if n > im.addressRoom(seg) {
		return nil, nil
	}
	pl, err := p.extend(seg, gap, n)
	if err != nil {
		return nil, err
	}
	if i := im.StringSection(); i >= 0 {
		t.sections[i].Size = end + n - im.StrOff
	}
	for i := range t.sections { // eu-strip gives .bss an offset behind what it keeps
		if s := &t.sections[i]; s.Type == elf.SHT_NOBITS && s.Off >= end {
			s.Off = end + n
		}
	}
	data, copied, shoff, size, err := t.write(im, end+n)
	if err != nil {
		return nil, err
	}
	prepare := []write{{off: end + n, data: data}}
	if copied != nil {
		prepare = append(prepare, *copied)
	}
	progs := append([]elfimage.Prog(nil), im.Progs...)
	for i := range progs {
		if &im.Progs[i] == seg {
			progs[i].Filesz += n
			progs[i].Memsz += n
		}
	}
	head, err := p.header(progs, shoff, len(im.Sections))
	if err != nil {
		return nil, err
	}
	// The new string goes where the headers were: only once they have moved.
	str := pl.prepare[0]
	pl.prepare, pl.size = prepare, size
	pl.heads = append(head, str)
	if gap > 0 {
		pl.settle = []write{{off: end, data: im.Bytes(t.tailOff - end)}}
	}
	pl.early = len(pl.heads)
	return pl, nil
}

// inNewSegment appends a PT_LOAD to the file: the string table with room, and
// whatever stands where the program header table has to grow. The table itself
// stays where it is: strip and objcopy write it back behind the ELF header, and
// kernels before 5.18 compute AT_PHDR from e_phoff.
func (p *planner) inNewSegment(moveDynamic bool) (*placement, error) {
	im := p.im
	table, err := p.readTable()
	if err != nil {
		return nil, err
	}
	t, err := p.trailer(im.size)
	if err != nil {
		return nil, err
	}
	tableEnd := im.Phoff + uint64(len(im.Progs))*im.PhdrSize()
	null := -1 // an unused program header spares the growth; MIPS linkers leave one
	for i := range im.Progs {
		if im.Progs[i].Type == elf.PT_NULL {
			null = i
		}
	}
	var moving []block
	if null < 0 {
		if moving, err = p.clear(tableEnd); err == nil && len(im.Progs)+1 >= 0xffff {
			err = cannot("%d program headers", len(im.Progs))
		}
		if err != nil {
			if null = im.expendable(); null < 0 {
				return nil, err
			}
			moving = nil
		}
	}
	if null < 0 {
		tableEnd += im.PhdrSize()
	}
	p.anchor(t, tableEnd, moving)
	n := &newSegment{p: p, t: t, lent: -1}
	n.begin()
	// Whether something that .dynamic points to lies where the table grows.
	overwritten := false
	for _, b := range moving {
		overwritten = overwritten || b.dynamic && b.off < tableEnd
		moveDynamic = moveDynamic || b.rank == rankDynamic
	}
	for rank := rankNote; rank < rankDynamic; rank++ {
		for i := range moving {
			if moving[i].rank == rank {
				if err := n.add(&moving[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	if overwritten && !moveDynamic {
		if n.lent = lendable(im.Progs); n.lent < 0 {
			moveDynamic = true
		}
	}
	pl := &placement{moved: true, tags: map[elf.DynTag]uint64{}}
	if moveDynamic {
		if pl.dynamic, err = n.addDynamic(); err != nil {
			return nil, err
		}
	}
	capacity := roomFor(len(p.change.List))
	if t.tail > 0 {
		capacity = max(capacity, elfimage.PageSize) // each growth would copy the appended data again
	}
	n.addTable(pl, table, p.change.List, capacity)
	if err := n.finish(pl, null, moveDynamic); err != nil {
		return nil, err
	}
	for _, b := range n.blocks {
		for _, tag := range dynamicPointers {
			if d, ok := im.Dyn(tag); ok && d.Val >= b.addr && d.Val < b.addr+b.size {
				pl.tags[tag] = d.Val - b.addr + b.newAddr
			}
		}
	}
	pl.settle = append(pl.settle, p.deadTable(tableEnd)...)
	pl.settle = append(pl.settle, p.deadBlocks(n.blocks, tableEnd)...)
	symbols, err := p.symbolWrites(n.blocks, pl.tags[elf.DT_STRTAB])
	if err != nil {
		return nil, err
	}
	pl.settle = append(pl.settle, symbols...)
	return pl, nil
}

// clear returns the blocks that have to move for one more program header behind
// the table. Where it costs little, room for a second one is cleared as well:
// patchelf before 0.15 adds one and overlooks a section that it then overwrites,
// because it stops looking at the first section header that points further on.
func (p *planner) clear(tableEnd uint64) ([]block, error) {
	blocks := p.im.blocks()
	moving, err := p.movingFor(tableEnd, tableEnd+p.im.PhdrSize(), blocks)
	if err != nil {
		return nil, err
	}
	if err := p.unreferenced(moving...); err != nil {
		return nil, err
	}
	const little = 4096 // bytes
	more, err := p.movingFor(tableEnd, tableEnd+2*p.im.PhdrSize(), blocks)
	if err != nil {
		return moving, nil
	}
	further := more[len(moving):]
	for _, b := range further {
		if b.size > little {
			return moving, nil
		}
	}
	if p.unreferenced(further...) != nil {
		return moving, nil
	}
	return more, nil
}

// lendable returns a program header that the loader can do without for the moment
// between two writes, or -1.
func lendable(progs []elfimage.Prog) int {
	for _, t := range []elf.ProgType{elf.PT_GNU_PROPERTY, elf.PT_NOTE, elf.PT_GNU_RELRO, elf.PT_GNU_EH_FRAME} {
		for i := range progs {
			if progs[i].Type == t {
				return i
			}
		}
	}
	return -1
}

// expendable returns a program header that the file can do without for good, or
// -1. It is the way out where code or constants stand right behind the table, as a
// linker script can have it (node's .rodata: NixOS/patchelf 531) and gold --rosegment.
//
// On x86, glibc takes the properties from PT_NOTE where there is no
// PT_GNU_PROPERTY (sysdeps/x86/dl-prop.h). PT_PHDR tells a loader how far the
// program stands from its linked address (glibc elf/rtld.c, rtld_setup_main_map):
// ET_EXEC stands where it was linked, and a library's is never read.
func (im *image) expendable() int {
	for i := range im.Progs {
		q := &im.Progs[i]
		if q.Type == elf.PT_PHDR && (im.Type == elf.ET_EXEC || im.Prog(elf.PT_INTERP) == nil) {
			return i
		}
		if q.Type != elf.PT_GNU_PROPERTY || im.Machine != elf.EM_X86_64 && im.Machine != elf.EM_386 {
			continue
		}
		for j := range im.Progs {
			if n := &im.Progs[j]; n.Type == elf.PT_NOTE && n.Off <= q.Off && q.Off+q.Filesz <= n.Off+n.Filesz {
				return i
			}
		}
	}
	return -1
}

// newSegment is the content of a new PT_LOAD as it takes shape.
type newSegment struct {
	p      *planner
	t      *trailer
	off    uint64 // p_offset
	addr   uint64 // p_vaddr
	align  uint64
	data   []byte // from off on
	blocks []block
	lent   int // program header to lend while .dynamic is switched, or -1
}

// begin chooses the place: in the file behind everything, without padding, and in
// memory above everything, .bss included, congruent to it modulo the alignment.
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
	const gap = 64 << 10 // closer, eu-elflint takes the new sections for parts of the segment below
	n.off = alignUp(im.size, 16)
	n.addr = alignUp(top+gap, n.align) + n.off%n.align
	n.data = im.Bytes(segmentHead + im.StrSize + 24<<10)[:segmentHead]
}

// reserve returns the offset of n more bytes that lies at the same place modulo align as at does.
func (n *newSegment) reserve(size, align, at uint64) uint64 {
	off := n.off + uint64(len(n.data))
	if align > 1 {
		off += (at%align + align - off%align) % align
	}
	n.data = append(n.data, make([]byte, off+size-n.off-uint64(len(n.data)))...)
	return off
}

// add moves a block into the segment.
func (n *newSegment) add(b *block) error {
	b.newSize = b.size
	b.newOff = n.reserve(b.size, min(b.align, elfimage.PageSize), b.off)
	b.newAddr = n.addr + b.newOff - n.off
	n.blocks = append(n.blocks, *b)
	return elfimage.ReadFull(n.p.im, n.data[b.newOff-n.off:][:b.size], b.off)
}

// addDynamic makes room for the dynamic section with one more entry and its terminator.
func (n *newSegment) addDynamic() (*block, error) {
	im := n.p.im
	old := im.Prog(elf.PT_DYNAMIC)
	b := &block{off: im.DynOff, size: old.Filesz, addr: old.Vaddr, rank: rankDynamic}
	b.newSize = (uint64(len(im.Dynamic)) + 2) * im.DynSize()
	if err := n.p.unreferenced(*b); err != nil {
		return nil, err
	}
	b.newOff = n.reserve(b.newSize, im.WordSize(), 0)
	b.newAddr = n.addr + b.newOff - n.off
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
	return b, nil
}

// addTable puts the string table last, with room for later edits behind it.
func (n *newSegment) addTable(pl *placement, table []byte, list string, capacity uint64) {
	at := n.reserve(0, 16, 0)
	before := uint64(len(n.data))
	grown, strAt := appendRoom(append(n.data, table...), list, capacity)
	n.data = grown
	pl.strOff, pl.newTable, pl.table = strAt-before, at, grown[before:]
	addr, size := n.addr+at-n.off, uint64(len(pl.table))
	pl.tags[elf.DT_STRTAB], pl.tags[elf.DT_STRSZ] = addr, size
	if i := n.p.im.StringSection(); i >= 0 {
		s := &n.t.sections[i]
		s.Off, s.Addr, s.Size = at, addr, size
	}
}

// finish lays out the trailer and the headers.
func (n *newSegment) finish(pl *placement, null int, writable bool) error {
	im := n.p.im
	segment := elfimage.Prog{Type: elf.PT_LOAD, Flags: elf.PF_R, Off: n.off, Vaddr: n.addr, Align: n.align,
		Filesz: uint64(len(n.data)), Memsz: uint64(len(n.data))}
	if writable {
		segment.Flags |= elf.PF_W
	}
	if !im.Is64() && segment.Vaddr+segment.Memsz > math.MaxUint32 {
		return cannot("the address space of 32 bits is full")
	}
	for _, b := range n.blocks {
		for _, i := range b.sections {
			s := &n.t.sections[i]
			s.Off += b.newOff - b.off
			s.Addr += b.newAddr - b.addr
			if b.rank == rankDynamic {
				s.Size = b.newSize
			}
		}
	}
	trailing, copied, shoff, size, err := n.t.write(im, n.off+segment.Filesz)
	if err != nil {
		return err
	}
	pl.size = size
	// One write, of which the string table and .dynamic are filled in later.
	tableAt, tableLen := pl.newTable-n.off, uint64(len(pl.table))
	all := append(n.data, trailing...)
	pl.table = all[tableAt:][:tableLen]
	if d := pl.dynamic; d != nil {
		pl.dynamicData = all[d.newOff-n.off:][:d.newSize]
	}
	pl.prepare = []write{{off: n.off, data: all}}
	if copied != nil {
		pl.prepare = append(pl.prepare, *copied)
	}
	if n.lent >= 0 { // with the places of old, so that the old bytes are what it describes
		progs := n.insert(im.Progs, segment, n.lent)
		head, err := n.p.header(progs, im.Shoff, len(im.Sections))
		if err != nil {
			return err
		}
		pl.heads, pl.early = head, len(head)
	}
	progs := append([]elfimage.Prog(nil), im.Progs...)
	for _, b := range n.blocks {
		for _, i := range b.progs {
			q := &progs[i]
			q.Off += b.newOff - b.off
			q.Paddr += b.newAddr - b.addr
			q.Vaddr += b.newAddr - b.addr
			if b.rank == rankDynamic {
				q.Filesz, q.Memsz = b.newSize, b.newSize
			}
		}
	}
	head, err := n.p.header(n.insert(progs, segment, null), shoff, len(n.t.sections))
	if err != nil {
		return err
	}
	pl.heads = append(pl.heads, head...)
	if n.lent < 0 {
		pl.early = len(pl.heads)
	}
	return nil
}

// insert returns the program headers with segment behind the last PT_LOAD, in
// ascending order of address as the gABI wants them, and without entry drop
// (-1 for none).
func (n *newSegment) insert(progs []elfimage.Prog, segment elfimage.Prog, drop int) []elfimage.Prog {
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
	out := make([]elfimage.Prog, 0, len(progs)+1)
	for i, q := range progs {
		if i != drop {
			out = append(out, q)
		}
		if i == last {
			out = append(out, segment)
		}
	}
	size := uint64(len(out)) * n.p.im.PhdrSize()
	end := n.p.im.Phoff + size
	for i := range out {
		// patchelf and objcopy together leave a segment that ends with the table.
		if q := &out[i]; q.Type == elf.PT_LOAD && q.Off <= n.p.im.Phoff && n.p.im.Phoff < q.Off+q.Filesz && q.Off+q.Filesz < end &&
			q.Filesz == q.Memsz && n.p.im.addressRoom(q) >= end-q.Off-q.Filesz {
			q.Filesz, q.Memsz = end-q.Off, end-q.Off
		}
		if out[i].Type == elf.PT_PHDR {
			out[i].Filesz, out[i].Memsz = size, size
		}
	}
	return out
}

// header writes the ELF header and the program headers, in one piece where they
// are neighbours: both then change at once. The section headers are at shoff, so
// many of them.
func (p *planner) header(progs []elfimage.Prog, shoff uint64, sections int) ([]write, error) {
	im := p.im
	ehdr := im.Bytes(im.EhdrSize())
	if err := elfimage.ReadFull(im, ehdr, 0); err != nil {
		return nil, err
	}
	w := im.WordSize()
	if len(im.Sections) > 0 {
		im.PutWord(ehdr[24+2*w:], shoff)
	}
	if sections != len(im.Sections) {
		im.Order.PutUint16(ehdr[24+3*w+12:], uint16(sections)) // behind e_phnum and e_shentsize
	}
	im.Order.PutUint16(ehdr[24+3*w+8:], uint16(len(progs))) // behind e_flags, e_ehsize, e_phentsize
	table := im.Bytes(uint64(len(progs)) * im.PhdrSize())
	for i, q := range progs {
		im.EncodeProg(table[uint64(i)*im.PhdrSize():], q)
	}
	switch {
	case im.Phoff == im.EhdrSize():
		return []write{{off: 0, data: append(ehdr, table...)}}, nil
	case len(progs) == len(im.Progs):
		return []write{{off: im.Phoff, data: table}, {off: 0, data: ehdr}}, nil
	}
	// BOLT puts the table at the end. Between the two writes the loader sees the
	// new table without its last entry: let that be one that it can do without.
	lent := lendable(progs)
	if lent < 0 {
		return nil, cannot("the program header table at offset %#x cannot change together with the ELF header", im.Phoff)
	}
	progs = append(append(slices.Clone(progs[:lent]), progs[lent+1:]...), progs[lent])
	for i, q := range progs {
		im.EncodeProg(table[uint64(i)*im.PhdrSize():], q)
	}
	return []write{{off: im.Phoff, data: table}, {off: 0, data: ehdr}}, nil
}

// deadBlocks zeroes what moved blocks leave behind from offset from on: zeros are
// what a later edit takes for free.
func (p *planner) deadBlocks(moved []block, from uint64) []write {
	var out []write
	for _, b := range moved {
		if start := max(b.off, from); start < b.end() {
			out = append(out, write{off: start, data: p.im.Bytes(b.end() - start)})
		}
	}
	return out
}

// symbolWrites repairs the symbols that name something that moved, such as
// __abi_tag, _DYNAMIC or a section symbol; the loader looks none of them up. strtab
// is the new address of the string table.
func (p *planner) symbolWrites(moved []block, strtab uint64) ([]write, error) {
	im := p.im
	type move struct{ addr, off uint64 } // by how much
	moves := make([]move, len(im.Sections))
	var dynamic *block // old linkers make _DYNAMIC absolute
	for k, b := range moved {
		for _, i := range b.sections {
			moves[i] = move{b.newAddr - b.addr, b.newOff - b.off}
		}
		if b.rank == rankDynamic {
			dynamic = &moved[k]
		}
	}
	if i := im.StringSection(); i >= 0 {
		moves[i].addr = strtab - im.StrAddr
	}
	var out []write
	size, at, w := im.SymSize(), im.SymbolValueAt(), im.WordSize()
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM {
			continue
		}
		if s.Size > im.size || s.Off > im.size-s.Size {
			return nil, elfimage.Malformed(im.Shoff+uint64(i)*im.ShdrSize(), "symbol table of %d bytes at %#x lies outside the file", s.Size, s.Off)
		}
		err := im.EachPiece(s.Off, s.Size/size, size, func(off uint64, b []byte) {
			for ; len(b) > 0; off, b = off+size, b[size:] {
				shndx, value := im.Symbol(b)
				by := uint64(0)
				switch {
				case shndx < elf.SHN_LORESERVE && int(shndx) < len(moves):
					by = moves[shndx].addr
				case dynamic != nil && shndx == elf.SHN_ABS && value == dynamic.addr:
					by = dynamic.newAddr - dynamic.addr
				}
				if by != 0 {
					v := im.Bytes(w)
					im.PutWord(v, value+by)
					out = append(out, write{off: off + moves[i].off + at, data: v})
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
