package elfedit

import (
	"debug/elf"

	"cuda-runpath/pkg/elfimage"
)

// covered returns the headers until .dynamic has been switched, and those from then on, where
// these are others: they say what the layout does.
//
// Between the two, strip has to find what .dynamic refers to, and it keeps of a file what has
// a section. Section headers for that time stand at the end of the file, which is cut off
// afterwards: those of the layout, and others over the old places of what has moved. Should
// the edit stop there, they are what the next one takes back: see takeBack.
func (p *planner) covered(l *layout) (first, then []write, err error) {
	im, covers := p.im, p.covers(l)
	if l.lent == nil && len(covers) == 0 {
		first, err = p.heads(l)
		return first, nil, err
	}
	progs, shoff, n := l.progs, im.Shoff, len(im.said)
	if l.lent != nil {
		progs = l.lent
	}
	if len(covers) > 0 {
		shoff, n = alignUp(l.size, 8), len(l.sections)+len(covers)
		table := im.Alloc(uint64(n) * im.ShdrSize())
		rest := table
		for _, sections := range [][]elfimage.Section{l.sections, covers} {
			for _, s := range sections {
				im.EncodeSection(rest, s)
				rest = rest[im.ShdrSize():]
			}
		}
		l.fresh = append(l.fresh, write{off: shoff, data: table})
	}
	if first, err = p.header(progs, shoff, n); err != nil {
		return nil, nil, err
	}
	if l.lent != nil {
		then, err = p.header(l.progs, l.shoff, len(l.sections))
		return first, then, err
	}
	ehdr := im.Alloc(im.EhdrSize())
	return first, []write{{data: ehdr}}, p.fileHeader(ehdr, len(progs), l.shoff, len(l.sections))
}

// covers are sections over the old places of what .dynamic refers to until it is switched,
// and with a program header that is lent of what those refer to. There are none where all
// switches at once, and behind appended data, which is to end the file.
func (p *planner) covers(l *layout) (covers []elfimage.Section) {
	im := p.im
	if l.dynamic != nil || len(l.sections) == 0 || im.imageEnd() < im.size || len(l.sections)+2*len(l.moved)+2 >= int(elf.SHN_LORESERVE) {
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
		if b.dynamic || l.lent != nil {
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
