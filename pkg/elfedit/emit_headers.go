package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// headers writes the changed parts of the ELF header, the program headers and the section headers.
func (p *planner) headers(l *layout) (out []write, err error) {
	im := p.im
	same := l.shoff == im.Shoff && len(l.sections) == len(im.Sections)
	if !same || p.goal.osabi != nil || !slices.Equal(l.progs, im.Progs) {
		out, err = p.header(l.progs, l.shoff, len(l.sections))
	}
	if !same || err != nil {
		return out, err // the section headers are among what is new
	}
	for i := 0; i < len(l.sections); i++ {
		first := i
		for i < len(l.sections) && l.sections[i] != im.Sections[i] { // neighbours change together
			i++
		}
		if i > first {
			b := im.Alloc(uint64(i-first) * im.ShdrSize())
			im.encodeSections(b, l.sections[first:i])
			out = append(out, write{off: im.Shoff + uint64(first)*im.ShdrSize(), data: b})
		}
	}
	return out, nil
}

// header writes the ELF header and the program headers, in one piece if they are neighbours. shoff and sections are
// the offset and number of the section headers.
func (p *planner) header(progs []elfimage.Prog, shoff uint64, sections int) ([]write, error) {
	im, w := p.im, p.im.WordSize()
	whole := im.Alloc(im.EhdrSize() + uint64(len(progs))*im.PhdrSize())
	b, table := whole[:im.EhdrSize()], whole[im.EhdrSize():]
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
	im.Order.PutUint16(b[24+3*w+8:], uint16(len(progs))) // after e_flags, e_ehsize, e_phentsize
	for i, q := range progs {
		im.EncodeProg(table[uint64(i)*im.PhdrSize():], q)
	}
	if im.Phoff == im.EhdrSize() {
		return []write{{data: whole}}, nil
	}
	return []write{{off: im.Phoff, data: table}, {data: b}}, nil // BOLT puts the table at the end of the file
}

func (im *image) encodeSections(b []byte, sections []elfimage.Section) {
	for i, s := range sections {
		im.EncodeSection(b[uint64(i)*im.ShdrSize():], s)
	}
}
