package thin

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
)

// Check compares the cut copy with the file. It goes by what both say, not by the plan: the headers of
// the copy describe the same memory, section by section, and then [Check] reads the copy through them.
func (c *Cut) Check(copied io.ReaderAt, size int64) error {
	after, err := elfimage.Parse(copied, size)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCheck, err)
	}
	u := &uncut{before: c.im, after: after}
	if err := u.headers(); err != nil {
		return fmt.Errorf("%w: %w", ErrCheck, err)
	}
	if err := Check(c.from, u, c.im.Size(), c.plan.options); err != nil {
		return err
	}
	// What is read as zeros where nothing is mapped is no code.
	code, err := listed(u, c.im.Size())
	if err != nil {
		return err
	}
	used := code.Marks
	for i := range code.Containers {
		used = append(used, gpucode.Mark{Off: code.Containers[i].Off, Size: code.Containers[i].Size})
	}
	for i := range c.im.Sections {
		s := &c.im.Sections[i]
		cut := s.HasBytes() && slices.ContainsFunc(u.gaps, func(gap hole) bool {
			return s.Off < gap.end() && gap.off < s.Off+s.Size
		})
		for k := 0; cut && k < len(code.Containers); k++ {
			if o := &code.Containers[k]; o.Damage != nil && o.Off >= s.Off && o.Off-s.Off < s.Size {
				return fmt.Errorf("%w: the container at %#x cannot be read to its end, and what is cut may belong to it",
					ErrCheck, o.Off)
			}
		}
	}
	for _, m := range used {
		for _, gap := range u.gaps {
			if m.Off < gap.end() && gap.off < m.Off+m.Size {
				return fmt.Errorf("%w: the code at %#x is cut", ErrCheck, m.Off)
			}
		}
	}
	return nil
}

// uncut shows a file that has been cut as it was before: what is mapped by its address, other sections
// by their index. It shows the headers of before, which have been compared.
type uncut struct {
	before, after *elfimage.Image
	gaps          []hole // that nothing maps any more, in the offsets of before
}

// headers compares ELF header, program headers and section headers.
func (u *uncut) headers() error {
	a, b := u.before, u.after
	var heads [2][64]byte
	for i, im := range []*elfimage.Image{a, b} {
		if err := elfimage.ReadFull(im, heads[i][:], 0); err != nil {
			return err
		}
		clear(heads[i][40:48]) // e_shoff
		clear(heads[i][60:62]) // e_shnum
	}
	if heads[0] != heads[1] {
		return errors.New("the ELF header differs")
	}
	if err := u.progs(); err != nil {
		return err
	}
	return u.sections()
}

// progs compares what the program headers map and describe.
func (u *uncut) progs() error {
	a, b := u.before, u.after
	of := func(im *elfimage.Image, load bool) (progs []elfimage.Prog) {
		for _, p := range im.Progs {
			if p.Type != elf.PT_NULL && (p.Type == elf.PT_LOAD) == load {
				progs = append(progs, p)
			}
		}
		return progs
	}
	was, is := of(a, false), of(b, false)
	if len(was) != len(is) {
		return fmt.Errorf("%d program headers of %d", len(is), len(was))
	}
	for i, p := range was {
		q := is[i]
		if p.HasBytes() {
			if off, ok := a.FileOffset(p.Vaddr, p.Filesz); !ok || off != p.Off { // of what nothing maps: RISC-V's attributes
				if err := (&comparer{before: a, after: b}).same(p.Off, q.Off, p.Filesz); err != nil {
					return fmt.Errorf("%v: %w", p.Type, err)
				}
			} else if off, ok := b.FileOffset(p.Vaddr, p.Filesz); !ok || off != q.Off {
				return fmt.Errorf("%v at %#x is not where it is mapped", p.Type, q.Off)
			}
		}
		if q.Off = p.Off; p != q {
			return fmt.Errorf("%v at address %#x differs", p.Type, p.Vaddr)
		}
	}
	is = of(b, true)
	size := page(a.Machine)
	for _, p := range of(a, true) {
		at, end := p.Vaddr, p.Vaddr+p.Memsz
		for first := true; first || at < end; first = false {
			if len(is) == 0 || is[0].Vaddr >= end && p.Memsz > 0 {
				return fmt.Errorf("nothing is mapped at address %#x", at)
			}
			q := is[0]
			is = is[1:]
			last := q.Vaddr+q.Memsz == end
			switch {
			case first && q.Vaddr != at, !first && (q.Vaddr < at || at%size != 0 || q.Vaddr%size != 0),
				q.Flags != p.Flags && (q.Flags != p.Flags&^elf.PF_X || u.code(&q)), q.Paddr-q.Vaddr != p.Paddr-p.Vaddr,
				q.Vaddr+q.Memsz > end,
				last && q.Memsz-q.Filesz != p.Memsz-p.Filesz, !last && q.Memsz != q.Filesz,
				q.Align != p.Align && q.Align != size, q.Align > 1 && (q.Vaddr-q.Off)%q.Align != 0:
				return fmt.Errorf("the segment at address %#x is not a part of what was there", q.Vaddr)
			}
			if q.Vaddr > at {
				u.gaps = append(u.gaps, hole{p.Off + at - p.Vaddr, q.Vaddr - at})
			}
			at = q.Vaddr + q.Memsz
		}
	}
	if len(is) > 0 {
		return fmt.Errorf("a segment too many, at address %#x", is[0].Vaddr)
	}
	return nil
}

// code reports whether a section of code is mapped by a segment.
func (u *uncut) code(p *elfimage.Prog) bool {
	for _, s := range u.before.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Addr < p.Vaddr+p.Memsz && p.Vaddr < s.Addr+s.Size {
			return true
		}
	}
	return false
}

// sections compares the section headers. Where nothing is mapped, a section of GPU code goes on behind
// that in one that has been added, in the order of the sections: what an earlier cut has added comes after all others.
func (u *uncut) sections() error {
	a, b := u.before, u.after
	if len(b.Sections) < len(a.Sections) {
		return errors.New("section headers are missing")
	}
	added, gaps := b.Sections[len(a.Sections):], 0
	for i, s := range a.Sections {
		t := b.Sections[i]
		for _, gap := range u.gaps {
			if !s.HasBytes() || gap.off < s.Off || gap.end() > s.Off+s.Size {
				continue
			}
			if name := a.SectionName(i); len(added) == 0 || name != ".nv_fatbin" && name != "__nv_relfatbin" &&
				name != ".cask_resource" {
				return fmt.Errorf("section %d has bytes that nothing maps", i)
			}
			want := s
			want.Off, want.Size = t.Off, gap.off-s.Off
			if t != want || !u.mapped(&t) {
				return fmt.Errorf("section %d is not as it is mapped", i)
			}
			t, added, gaps = added[0], added[1:], gaps+1
			front := gap.end() - s.Off
			s.Off, s.Addr, s.Size = s.Off+front, s.Addr+front, s.Size-front
		}
		if s.Off = t.Off; s != t || !u.mapped(&t) {
			return fmt.Errorf("section %d is not as it was", i)
		}
	}
	if len(added) > 0 || gaps != len(u.gaps) {
		return errors.New("sections too many, or too few")
	}
	return nil
}

// mapped reports whether a section of the copy is in the file where its address is mapped.
func (u *uncut) mapped(s *elfimage.Section) bool {
	if s.Flags&elf.SHF_ALLOC == 0 || !s.HasBytes() {
		return true
	}
	off, ok := u.after.FileOffset(s.Addr, s.Size)
	return ok && off == s.Off
}

// ReadAt reads at an offset of before.
func (u *uncut) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		part, err := u.read(b[n:], uint64(off)+uint64(n))
		if err != nil {
			return n, err
		}
		n += part
	}
	return n, nil
}

// read reads a part of what is at an offset of before.
func (u *uncut) read(b []byte, off uint64) (n int, err error) {
	a := u.before
	limit := func(end uint64) { b = b[:min(uint64(len(b)), end-off)] }
	until := func(start uint64) { // something else begins there
		if off < start {
			limit(start)
		}
	}
	ends := []uint64{a.EhdrSize() + uint64(len(a.Progs))*a.PhdrSize(), a.Shoff + uint64(len(a.Sections))*a.ShdrSize()}
	for i, start := range []uint64{0, a.Shoff} {
		if start <= off && off < ends[i] {
			limit(ends[i])
			return len(b), elfimage.ReadFull(a, b, off)
		}
		until(start)
	}
	for i := range a.Progs {
		p := &a.Progs[i]
		if p.Type == elf.PT_LOAD && p.Off <= off && off < p.Off+p.Filesz {
			limit(p.Off + p.Filesz)
			for _, gap := range u.gaps {
				if gap.off <= off && off < gap.end() {
					limit(gap.end())
					clear(b)
					return len(b), nil
				}
				until(gap.off)
			}
			return u.memory(b, p.Vaddr+off-p.Off)
		}
		if p.Type == elf.PT_LOAD && p.Filesz > 0 {
			until(p.Off)
		}
	}
	for i := range a.Sections {
		s := &a.Sections[i]
		if !s.HasBytes() {
			continue
		}
		if s.Off <= off && off < s.Off+s.Size {
			limit(s.Off + s.Size)
			if s.Type == elf.SHT_SYMTAB {
				return len(b), u.symbols(b, i, off-s.Off)
			}
			return len(b), elfimage.ReadFull(u.after, b, u.after.Sections[i].Off+off-s.Off)
		}
		until(s.Off)
	}
	return len(b), elfimage.ReadFull(a, b, off) // nobody's
}

// memory reads what the copy maps at an address.
func (u *uncut) memory(b []byte, addr uint64) (int, error) {
	for i := range u.after.Progs {
		p := &u.after.Progs[i]
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr >= p.Vaddr+p.Filesz {
			continue
		}
		if at := addr - p.Vaddr; at < p.Filesz {
			b = b[:min(uint64(len(b)), p.Filesz-at)]
			return len(b), elfimage.ReadFull(u.after, b, p.Off+at)
		}
	}
	return 0, fmt.Errorf("nothing is mapped at address %#x", addr)
}

// symbols reads symbols, from an offset of section i on: one that names a piece of a section of before names that
// section.
func (u *uncut) symbols(b []byte, i int, from uint64) error {
	s, size := &u.after.Sections[i], u.after.SymSize()
	first := from - from%size
	whole := make([]byte, min((from+uint64(len(b))+size-1)/size*size, s.Size)-first)
	if err := elfimage.ReadFull(u.after, whole, s.Off+first); err != nil {
		return err
	}
	for symbol := whole; uint64(len(symbol)) >= size; symbol = symbol[size:] {
		index, value := u.after.Symbol(symbol)
		if int(index) < len(u.before.Sections) || int(index) >= len(u.after.Sections) {
			continue
		}
		p := &u.after.Sections[index]
		of := slices.IndexFunc(u.before.Sections, func(s elfimage.Section) bool {
			return s.NameOff == p.NameOff && s.Addr <= p.Addr && p.Addr < s.Addr+s.Size
		})
		if of < 0 || value < p.Addr || value >= p.Addr+p.Size {
			return fmt.Errorf("a symbol at address %#x names section %d", value, index)
		}
		u.after.Order.PutUint16(symbol[symbolSection:], uint16(of))
	}
	copy(b, whole[from-first:])
	return nil
}
