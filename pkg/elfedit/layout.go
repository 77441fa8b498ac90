package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// A layout is where everything is after an edit. A strategy is a function from an image and a goal to a layout, or to
// the reason why there is none. emit makes writes of it, and verify compares the result with the owners of the bytes.
type layout struct {
	size     uint64 // of the file, bytes
	progs    []elfimage.Prog
	sections []elfimage.Section
	shoff    uint64

	fresh   []write // new bytes behind the end of the file, or in padding
	changes []write // changed bytes of the file, by their new places
	live    []write // the same by their old places
	dead    []span  // what nothing will refer to any more, by old places

	table   place          // the dynamic string table
	strings uint64         // where the new strings begin in it
	tags    []elfimage.Dyn // dynamic entries that say where things are
	moved   []block        // what else is elsewhere
	dynamic *block         // .dynamic, if it is one of them

	relocated *relocation // a segment that is elsewhere in the file, or nil
	note      *noteSpot   // where the resolution note of the goal is, or nil
}

// A place is a range of the file and the address where it is mapped.
type place struct{ off, addr, size uint64 }

// A span is a range of the file.
type span struct{ off, size uint64 }

func (s span) end() uint64 { return s.off + s.size }

// asItIs is the layout of the present file, except for what a goal changes in place.
func (p *planner) asItIs() *layout {
	im := p.im
	l := &im.work().layout
	*l = layout{size: im.size, progs: im.CopyProgs(im.Progs, p.goal.spare+1), sections: im.Sections, shoff: im.Shoff,
		table: place{im.StrOff, im.StrAddr, im.StrSize}}
	for range p.goal.spare {
		l.progs = append(l.progs, elfimage.Prog{Type: elf.PT_NULL})
	}
	if p.goal.stack != nil {
		l.setStack(*p.goal.stack, p.unusedProg(l))
	}
	l.live = slices.Clone(p.goal.unversion)
	if p.goal.interp != nil && p.interpreterFits() {
		old := im.Prog(elf.PT_INTERP)
		b := make([]byte, old.Filesz)
		copy(b, *p.goal.interp)
		l.live = append(l.live, write{off: old.Off, data: b})
	}
	if p.spot != nil {
		n := *p.spot
		l.note = &n
	}
	p.layNote(l)
	return l
}

// unusedProg returns the index of a program header that may be replaced, or -1.
func (p *planner) unusedProg(l *layout) int {
	unused := slices.IndexFunc(l.progs, func(q elfimage.Prog) bool { return q.Type == elf.PT_NULL })
	if i := p.im.expendable(); unused < 0 && p.sparing && i >= 0 && l.progs[i] == p.im.Progs[i] {
		return i
	}
	return unused
}

// setStack gives the stack its flags. A new PT_GNU_STACK replaces the program header with index unused, or makes the
// table longer if that is negative.
func (l *layout) setStack(flags elf.ProgFlag, unused int) {
	for i := len(l.progs) - 1; i >= 0; i-- { // the last one counts: see elfimage's Stack
		if l.progs[i].Type == elf.PT_GNU_STACK {
			l.progs[i].Flags = flags
			return
		}
	}
	stack := elfimage.Prog{Type: elf.PT_GNU_STACK, Flags: flags, Align: 16}
	if unused >= 0 {
		l.progs[unused] = stack
	} else {
		l.progs = append(l.progs, stack)
	}
}

// ownSections copies the section headers, so that they may be changed.
func (l *layout) ownSections(im *image) {
	if &l.sections[0] == &im.Sections[0] {
		l.sections = im.CopySections(l.sections, 2)
	}
}

// moveStrings gives the string table another place.
func (l *layout) moveStrings(im *image, at place) {
	l.table = at
	if at.addr != im.StrAddr {
		l.tags = append(l.tags, elfimage.Dyn{Tag: elf.DT_STRTAB, Val: at.addr})
	}
	if at.size != im.StrSize {
		l.tags = append(l.tags, elfimage.Dyn{Tag: elf.DT_STRSZ, Val: at.size})
	}
	if i := im.stringSection(); i >= 0 {
		l.ownSections(im)
		s := &l.sections[i]
		s.Off, s.Addr, s.Size = at.off, at.addr, at.size
		if s.Addralign > 1 && at.addr%s.Addralign != 0 { // patchelf's; strings need none
			s.Addralign = 1
		}
	}
}

// grow makes a segment map n more bytes.
func (l *layout) grow(im *image, seg *elfimage.Prog, n uint64) {
	for i := range im.Progs {
		if &im.Progs[i] == seg {
			l.progs[i].Filesz += n
			l.progs[i].Memsz += n
		}
	}
}

// now returns the new offset of n bytes at an old offset.
func (l *layout) now(off, n uint64) uint64 {
	for _, b := range l.moved {
		if off >= b.off && off+n <= b.end() {
			return b.newOff + off - b.off
		}
	}
	return l.relocated.at(off, n)
}

// put puts data at an offset of the file.
func (l *layout) put(off uint64, data []byte) {
	if b := l.written(off, uint64(len(data))); b != nil {
		copy(b, data)
	} else {
		l.changes = append(l.changes, write{off: off, data: data})
	}
}

// written returns the n bytes that the layout puts at an offset, to be filled in, or nil.
func (l *layout) written(off, n uint64) []byte {
	for _, w := range l.fresh {
		if w.data != nil && w.off <= off && off+n <= w.off+w.len() {
			return w.data[off-w.off:][:n:n]
		}
	}
	return nil
}

// entries returns the dynamic section afterwards.
func (p *planner) entries(l *layout) []elfimage.Dyn {
	im, delta := p.im, uint64(0)
	out := take(&im.work().dynamic, len(p.goal.entries))
	if l.dynamic != nil {
		delta = l.dynamic.newAddr - l.dynamic.addr
	}
	for i, e := range p.goal.entries {
		d := e.Dyn
		if e.text >= 0 {
			d.Val = l.strings + p.goal.textAt[e.text]
		}
		for _, now := range l.tags {
			if now.Tag == d.Tag {
				d.Val = now.Val
			}
		}
		if im.isRelative(d.Tag) { // to its own address
			d.Val += d.Off - im.DynOff - uint64(i)*im.DynSize() - delta
		}
		out = append(out, d)
	}
	return out
}

// isRelative recognizes the one entry whose value is relative to its own address (binutils include/elf/mips.h).
func (im *image) isRelative(tag elf.DynTag) bool {
	return im.Machine == elf.EM_MIPS && tag == elf.DT_MIPS_RLD_MAP_REL
}
