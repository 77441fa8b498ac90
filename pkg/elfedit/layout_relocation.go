package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// A relocation is the last segment in memory with another place in the file, a copy at the end where it can grow. Its
// addresses stay, and no program header is added. It takes what is new if nothing after the program header table can
// move, such as code, constants, or notes whose place matters.
type relocation struct {
	seg       int    // index of the PT_LOAD
	off, size uint64 // where its bytes are before the edit
	addr      uint64
	align     uint64 // of the copy
	to        uint64 // where they are afterwards; the same if it has no .bss and can grow over the end of the file
}

// maxRelocated bounds the growth of the file, in bytes. The file then holds all that the segment maps, .bss included.
const maxRelocated = 64 << 20

// maxCopied bounds the growth of the file, in bytes, for a copy that keeps a segment from growing over tables that
// are not loaded.
const maxCopied = 1 << 20

// maxBetween bounds the bytes after a segment that it also maps to reach the end of the file.
const maxBetween = 1 << 20

// stays reports whether the segment grows where it is.
func (r *relocation) stays() bool { return r.to == r.off }

// holds reports whether the segment holds n bytes at an offset.
func (r *relocation) holds(off, n uint64) bool {
	return r != nil && off >= r.off && off+n <= r.off+r.size
}

// at returns the new offset of n bytes at an offset.
func (r *relocation) at(off, n uint64) uint64 {
	if r.holds(off, n) {
		return off - r.off + r.to
	}
	return off
}

// relocatable returns the relocation of the last segment in memory, or why there is none.
func (p *planner) relocatable() (*relocation, error) {
	im, last := p.im, -1
	for i := range im.Progs {
		if q := &im.Progs[i]; q.Type == elf.PT_LOAD && q.Memsz > 0 && (last < 0 || q.Vaddr > im.Progs[last].Vaddr) {
			last = i
		}
	}
	if last < 0 {
		return nil, cannot("no segment is loaded")
	}
	seg := &im.Progs[last]
	for _, s := range im.Sections { // the ELF header, which changes, belongs to nothing else
		if s.HasBytes() && s.Off < im.EhdrSize() {
			return nil, cannot("a section at offset %#x overlaps the headers", s.Off)
		}
	}
	if seg.Filesz == seg.Memsz && seg.Off+seg.Filesz <= im.size && im.size-seg.Off-seg.Filesz <= maxBetween {
		if seg.Filesz <= maxCopied && im.tablesAfter(seg) {
			if r, err := p.copied(last); err == nil {
				return r, nil
			}
		}
		return &relocation{seg: last, off: seg.Off, size: seg.Filesz, addr: seg.Vaddr, to: seg.Off}, nil
	}
	return p.copied(last)
}

// tablesAfter reports whether sections that are not loaded, such as .symtab, come after a segment. A segment that
// grows over them would hold them, and llvm-strip writes a segment's contents back over the tables that it has
// shortened. Section names do not count, because they move along.
func (im *image) tablesAfter(seg *elfimage.Prog) bool {
	for i, s := range im.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 && s.HasBytes() && uint32(i) != im.Shstrndx && s.Off >= seg.Off+seg.Filesz {
			return true
		}
	}
	return false
}

// copied returns the relocation of a segment to a copy at the end of the file, or why it cannot move.
func (p *planner) copied(last int) (*relocation, error) {
	im, seg := p.im, &p.im.Progs[last]
	page, tableEnd := max(seg.Align, elfimage.PageSize), p.im.tableEnd()
	switch {
	case seg.Filesz > 0 && (seg.Off < im.EhdrSize() || seg.Off < tableEnd && im.Phoff < seg.Off+seg.Filesz):
		return nil, cannot("the last segment holds the headers")
	case seg.Memsz > maxRelocated:
		return nil, cannot("the file would have to hold a copy of the last segment's %d bytes", seg.Memsz)
	}
	for i := range im.Progs {
		// Its first page would map other bytes if another segment ends in that page.
		if q := &im.Progs[i]; i != last && q.Type == elf.PT_LOAD && q.Memsz > 0 &&
			alignUp(q.Vaddr+q.Memsz, page) > seg.Vaddr&^(page-1) {
			return nil, cannot("the last segment shares a page with the one at address %#x", q.Vaddr)
		}
	}
	// The kernel and glibc want a place that is congruent modulo the alignment, which may cost 2 MiB of padding. A
	// page of the machine is enough, unless no other segment asks for as much (see imageAlign); variables of this one
	// may need it then.
	align := page
	if imageAlign(slices.Delete(slices.Clone(im.Progs), last, last+1)) >= page {
		align = min(page, im.pageSize())
	}
	to := alignUp(im.size, 16)
	to += (seg.Vaddr%align + align - to%align) % align
	return &relocation{seg: last, off: seg.Off, size: seg.Filesz, addr: seg.Vaddr, to: to, align: align}, nil
}

// pageSize is the largest page that Linux has on the machine, in bytes: x86 has one of 4 KiB.
func (im *image) pageSize() uint64 {
	if im.Machine == elf.EM_X86_64 || im.Machine == elf.EM_386 {
		return elfimage.PageSize
	}
	return 64 << 10
}

// beginAt places the new bytes after the relocated segment.
func (n *newSegment) beginAt(r *relocation) {
	im := n.p.im
	seg := &im.Progs[r.seg]
	n.relocated, n.l.relocated, n.align = r, r, seg.Align
	n.addr = alignUp(seg.Vaddr+seg.Memsz, 16)
	n.off = r.to + n.addr - seg.Vaddr
	if r.stays() {
		n.off = alignUp(im.size, 16)
		n.addr = n.off - r.off + r.addr
	}
	n.data = make([]byte, 0, im.StrSize+8<<10)
}

// relocateSections gives the sections of the segment their new offsets.
func (n *newSegment) relocateSections() {
	r, seg := n.relocated, &n.p.im.Progs[n.relocated.seg]
	for i := range n.t.sections {
		s := &n.t.sections[i]
		if s.Flags&elf.SHF_ALLOC == 0 || s.Addr < seg.Vaddr || s.Addr+s.Size > seg.Vaddr+seg.Memsz &&
			s.Flags&elf.SHF_TLS == 0 {
			if s.Type == elf.SHT_NOBITS && s.Off >= r.off+r.size { // eu-strip puts .bss behind what it keeps
				s.Off = n.end()
			}
			continue
		}
		switch tls := s.Flags&elf.SHF_TLS != 0; {
		case s.Type == elf.SHT_NOBITS && !tls, s.Off-seg.Off == s.Addr-seg.Vaddr:
			s.Off = r.to + s.Addr - seg.Vaddr
		case s.Type == elf.SHT_NOBITS && tls: // .tbss takes no memory of the segment
			s.Off = r.at(s.Off, 0)
		}
	}
}

// relocateProgs makes the segment end with what is new, and gives the program headers of its contents their new
// offsets. before has the old places.
func (n *newSegment) relocateProgs(progs []elfimage.Prog) error {
	r, before := n.relocated, n.p.im.Progs
	seg := &progs[r.seg]
	if n.dynamic && seg.Flags&(elf.PF_W|elf.PF_X) == elf.PF_X {
		return cannot("the last segment is code, and .dynamic has to be writable")
	} else if n.dynamic {
		seg.Flags |= elf.PF_W
	}
	seg.Off, seg.Filesz = r.to, n.addr+n.end()-n.off-seg.Vaddr
	seg.Memsz = seg.Filesz
	if !r.stays() && seg.Align > r.align {
		seg.Align = r.align
	}
	n.p.im.fitTable(progs)
	for i := range before { // a new one comes after them
		if q := &progs[i]; i != r.seg && q.Type != elf.PT_LOAD && q.Off == before[i].Off &&
			(q.Filesz > 0 || q.Type == elf.PT_TLS) &&
			r.holds(q.Off, q.Filesz) && q.Off-r.off == q.Vaddr-r.addr {
			q.Off = r.at(q.Off, q.Filesz)
		}
	}
	return nil
}

// followCopy copies the relocated segment to its new place. The old bytes are dead, unless something else overlaps
// them.
func (l *layout) followCopy(im *image) {
	r := l.relocated
	if r.stays() {
		return
	}
	if r.size > 0 {
		l.fresh = append([]write{{off: r.to, from: r.off, n: r.size}}, l.fresh...)
	}
	for i, d := range l.dead {
		l.dead[i].off = r.at(d.off, d.size)
	}
	l.table.off = r.at(l.table.off, im.StrSize)
	if r.size > 0 && !im.standsOver(r) {
		l.dead = append(l.dead, span{r.off, r.size})
	}
}

// standsOver reports whether anything that stays shares bytes with the relocated segment.
func (im *image) standsOver(r *relocation) bool {
	for i := range im.Progs {
		if q := &im.Progs[i]; i != r.seg && q.Type == elf.PT_LOAD && q.Off < r.off+r.size && r.off < q.Off+q.Filesz {
			return true
		}
	}
	return slices.ContainsFunc(im.owned(), func(o elfimage.Owner) bool { return im.ownerStays(o, r) })
}

func (im *image) ownerStays(o elfimage.Owner, r *relocation) bool {
	if o.Off >= r.off+r.size || o.End() <= r.off {
		return false
	}
	if o.Kind == elfimage.OfSection && im.Sections[o.Index].Flags&elf.SHF_ALLOC == 0 || o.Kind < elfimage.OfSection {
		return true
	}
	return !r.holds(o.Off, o.Size)
}
