package thin

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"

	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
)

// maxHeaders returns the bound of program headers of a file that is cut: 300 are no trouble for glibc, strip, objcopy,
// llvm-strip, eu-strip, patchelf 0.19 and gdb (1,000 would make CUDA 11.8's cuBLASLt 9 MB shorter, of 261). Of a
// program many kernels read no more than a page of them (fs/binfmt_elf.c, load_elf_phdrs, ELF_MIN_ALIGN): with the ELF
// header, 72 fill it. Four are left for later edits.
func maxHeaders(im *elfimage.Image) int {
	if im.SkipReason() == "" && im.Prog(elf.PT_INTERP) == nil {
		return 300
	}
	return 68
}

// leastHole is what is worth a program header and a section header, in bytes.
const leastHole = 16 << 10

// margin is what stays behind a container, in bytes: who unpacks code in blocks may read past its end.
const margin = 256

// Cut is a plan to write a file without pages that hold nothing once it is thinned. The segment around
// them becomes several, with the same addresses, and so does the section; at the addresses between
// them nothing is mapped, as between the segments of a linker that aligns these to 2 MiB. (Zeros made
// by the loader would have to be executable where the segment is, which SELinux forbids, and strip
// forgets what no section covers.)
type Cut struct {
	plan  *Plan
	from  io.ReaderAt // the file, with program headers to spare
	im    *elfimage.Image
	holes []hole // in order of offset
	// MovedNotes names notes that give their place to program headers: see [elfedit.Edit.MovedNotes].
	MovedNotes []string
}

// hole is a part of the file that is cut, whole pages, in the offsets of before.
type hole struct{ off, size uint64 }

func (h hole) end() uint64 { return h.off + h.size }

// page returns what a cut is a multiple of: the largest page that the machine can have, in bytes.
func page(m elf.Machine) uint64 {
	if m == elf.EM_X86_64 || m == elf.EM_386 {
		return elfimage.PageSize
	}
	return 64 << 10
}

// ErrNoCut is wrapped by errors of Plan.cut that say why a file keeps its length.
var ErrNoCut = errors.New("its length stays")

// cut plans to cut out of the file at r, of size bytes, which f lists, what is free once the plan has
// been applied. It returns nil where there is nothing worth it, and an error that is [ErrNoCut] where
// the file cannot be cut.
func (p *Plan) cut(r io.ReaderAt, size int64, f *gpucode.File) (*Cut, error) {
	im, err := elfimage.Parse(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCut, err)
	}
	if !im.Is64() {
		return nil, nil // CUDA has none since 2014
	}
	holes, err := p.holes(r, im, f)
	if err != nil {
		return nil, err
	}
	end := described(im) // behind it patchelf leaves a zero
	nothing, err := zerosBut(r, hole{end, max(end, uint64(size)) - end}, nil)
	if err != nil {
		return nil, err
	}
	if !nothing && len(holes) > 0 {
		return nil, fmt.Errorf("%w: %d bytes are appended to it, and a program may look for them at their offset", ErrNoCut,
			uint64(size)-end)
	}
	slices.SortFunc(holes, func(a, b hole) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.off, b.off)) })
	c := &Cut{plan: p}
	n := min(len(holes), maxHeaders(im)-1-len(im.Progs)) // the table may need a segment to grow into
	if n <= 0 {
		return nil, nil
	}
	wanted := n
	for err = c.spare(r, im, n); err != nil; err = c.spare(r, im, n) {
		if n--; n == 0 {
			return nil, fmt.Errorf("%w: %w", ErrNoCut, err)
		}
	}
	if n < wanted { // what an edit may say of itself is bounded, and the next one has less to move
		if first := *c; c.spare(c.from, c.im, wanted) == nil {
			n, c.MovedNotes = wanted, append(first.MovedNotes, c.MovedNotes...)
		} else {
			*c = first
		}
	}
	if c.im.Phoff != c.im.EhdrSize() { // as BOLT's table of many unused ones, which could be cut itself
		return nil, fmt.Errorf("%w: its program headers are at %#x, not right after the ELF header", ErrNoCut, c.im.Phoff)
	}
	c.holes = holes[:n]
	sort(c.holes)
	for _, h := range c.holes {
		if !cuttable(c.im, h) {
			return nil, fmt.Errorf("%w: something else refers to the GPU code at %#x", ErrNoCut, h.off)
		}
	}
	if len(c.im.Sections)+n >= int(elf.SHN_LORESERVE) || c.Size() > im.Size()-leastHole {
		return nil, nil
	}
	return c, nil
}

// spare plans a file with n unused program headers.
func (c *Cut) spare(r io.ReaderAt, im *elfimage.Image, n int) error {
	c.from, c.im = r, im
	edit, err := elfedit.Plan(im, elfedit.Change{Spare: n})
	if err != nil || edit == nil {
		return err
	}
	from, size := edit.Planned()
	c.from, c.MovedNotes = from, edit.MovedNotes()
	c.im, err = elfimage.Parse(from, size)
	return err
}

// described returns where what the headers describe ends.
func described(im *elfimage.Image) uint64 {
	end := im.Shoff + uint64(len(im.Sections))*im.ShdrSize()
	for i := range im.Sections {
		if s := &im.Sections[i]; s.InFile() {
			end = max(end, s.Off+s.Size)
		}
	}
	for i := range im.Progs {
		end = max(end, im.Progs[i].Off+im.Progs[i].Filesz)
	}
	return end
}

// holes returns what is between the containers of sections that are for them alone.
func (p *Plan) holes(r io.ReaderAt, im *elfimage.Image, f *gpucode.File) (holes []hole, err error) {
	var used, free []hole // by containers and marks; where one becomes shorter
	becomes, gone := map[uint64]*container{}, map[uint64]bool{}
	for i := range p.containers {
		c := &p.containers[i]
		becomes[c.Off] = c
		gone[c.next(c.Off+c.Size)] = c.freeFrom() < c.end // a mark that stood there
	}
	for i := range f.Containers {
		c := &f.Containers[i]
		u := hole{c.Off, c.Size}
		if b := becomes[c.Off]; b != nil && b.freeFrom() < b.end {
			u.size = b.freeFrom() - c.Off
			free = append(free, hole{b.freeFrom(), b.end - b.freeFrom()})
		}
		used = append(used, u)
	}
	for _, m := range f.Marks {
		if !gone[m.Off] {
			used = append(used, hole{m.Off, m.Size})
		}
	}
	sort(used)
	sort(free)
	size := page(im.Machine)
	for i := range im.Sections {
		s := &im.Sections[i]
		if name := im.SectionName(i); s.Type != elf.SHT_PROGBITS || !isThinned(name) {
			continue
		}
		if slices.ContainsFunc(f.Containers, func(c gpucode.Container) bool {
			return c.Damage != nil && c.Off >= s.Off && c.Off < s.Off+s.Size // nobody knows where it ends
		}) {
			continue
		}
		for k := firstBehind(used, s.Off); k < len(used) && used[k].off < s.Off+s.Size; k++ {
			u := used[k]
			if u.off < s.Off || u.end() > s.Off+s.Size {
				continue
			}
			end := s.Off + s.Size - 1 // some of it stays behind each hole
			if k+1 < len(used) {
				end = min(end, used[k+1].off)
			}
			h := hole{off: (u.end() + margin + size - 1) &^ (size - 1)}
			if end &^= size - 1; end < h.off+leastHole {
				continue
			}
			h.size = end - h.off
			empty, err := zerosBut(r, h, free)
			if err != nil {
				return nil, err
			}
			if empty && cuttable(im, h) {
				holes = append(holes, h)
			}
		}
	}
	return holes, nil
}

// sort puts parts of a file in order of offset.
func sort(parts []hole) {
	slices.SortFunc(parts, func(a, b hole) int { return cmp.Compare(a.off, b.off) })
}

// firstBehind returns the index of the first of sorted parts that ends behind an offset.
func firstBehind(parts []hole, off uint64) int {
	k, _ := slices.BinarySearchFunc(parts, off, func(h hole, off uint64) int {
		if h.end() <= off {
			return -1
		}
		return 1
	})
	return k
}

// freeFrom returns where what is free behind a container begins once it is thinned, behind its mark.
func (c *container) freeFrom() uint64 {
	if !c.thinned() {
		return c.end
	}
	at := c.kept()
	if c.mark != nil {
		at = c.next(at) + uint64(len(c.mark))
	}
	return at
}

// zerosBut reports whether a part of the file is zeros but for what becomes free.
func zerosBut(r io.ReaderAt, h hole, free []hole) (bool, error) {
	buf := make([]byte, 64<<10)
	for at := h.off; at < h.end(); {
		n := min(uint64(len(buf)), h.end()-at)
		if k := firstBehind(free, at); k < len(free) && free[k].off <= at {
			at, n = free[k].end(), 0
		} else if k < len(free) {
			n = min(n, free[k].off-at)
		}
		if err := elfimage.ReadFull(r, buf[:n], at); err != nil {
			return false, err
		}
		if !zero(buf[:n]) {
			return false, nil
		}
		at += n
	}
	return true, nil
}

func zero(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }

// cuttable reports whether one segment and one section hold a part of the file, and no other header
// describes any of it.
func cuttable(im *elfimage.Image, h hole) bool {
	size, in := page(im.Machine), 0
	for i := range im.Progs {
		switch p := &im.Progs[i]; {
		case p.Filesz == 0 || p.Off >= h.end() || p.Off+p.Filesz <= h.off:
		case p.Type != elf.PT_LOAD || p.Off >= h.off || p.Off+p.Filesz <= h.end() || (p.Vaddr-p.Off)%size != 0:
			return false
		default:
			in++
		}
	}
	for i := range im.Sections {
		switch s := &im.Sections[i]; {
		case !s.HasBytes() || s.Off >= h.end() || s.Off+s.Size <= h.off:
		case s.Off >= h.off || s.Off+s.Size <= h.end():
			return false
		default:
			in++
		}
	}
	return in == 2
}

// at returns where in the copy what is at an offset of the file is, or would be.
func (c *Cut) at(off uint64) uint64 {
	gone := uint64(0)
	for _, h := range c.holes {
		if off > h.off {
			gone += min(off-h.off, h.size)
		}
	}
	return off - gone
}

// pieces calls f for what is left of a range of the file, and for the holes in it.
func (c *Cut) pieces(off, size uint64, f func(off, size uint64, hole bool)) {
	end := off + size
	for _, h := range c.holes {
		if h.end() <= off || h.off >= end {
			continue
		}
		if h.off > off {
			f(off, h.off-off, false)
		}
		from := max(off, h.off)
		off = min(h.end(), end)
		f(from, off-from, true)
	}
	if off < end {
		f(off, end-off, false)
	}
}

// Size returns the size of the copy in bytes.
func (c *Cut) Size() int64 {
	shoff, sections := c.sectionTable()
	return int64(shoff + uint64(len(sections))*c.im.ShdrSize())
}

// sectionTable returns the section headers of the copy, and where they are. Those of pieces come
// last, so that no index changes.
func (c *Cut) sectionTable() (shoff uint64, sections []elfimage.Section) {
	im := c.im
	sections = slices.Clone(im.Sections)
	for i, s := range im.Sections {
		sections[i].Off = c.at(s.Off)
		if !s.HasBytes() {
			continue
		}
		first := true
		c.pieces(s.Off, s.Size, func(off, size uint64, hole bool) {
			piece := s
			piece.Off, piece.Addr, piece.Size = c.at(off), s.Addr+off-s.Off, size
			if s.Addr == 0 {
				piece.Addr = 0
			}
			switch {
			case hole:
			case first:
				sections[i], first = piece, false
			default:
				sections = append(sections, piece)
			}
		})
	}
	shoff = c.at(im.Shoff)
	if end := uint64(im.Size()); im.Shoff+uint64(len(im.Sections))*im.ShdrSize() < end {
		shoff = (c.at(end) + 7) &^ 7
	}
	return shoff, sections
}

// progs returns the program headers of the copy.
func (c *Cut) progs() (progs []elfimage.Prog) {
	im, size := c.im, page(c.im.Machine)
	for _, p := range im.Progs {
		whole := p
		switch p.Off = c.at(p.Off); {
		case p.Type == elf.PT_NULL:
			continue
		case p.Type != elf.PT_LOAD || p.Filesz == 0:
			progs = append(progs, p)
			continue
		}
		c.pieces(whole.Off, whole.Filesz, func(off, n uint64, hole bool) {
			if hole {
				return
			}
			piece := whole
			piece.Off, piece.Filesz, piece.Memsz = c.at(off), n, n
			piece.Vaddr += off - whole.Off
			piece.Paddr += off - whole.Off
			if (piece.Vaddr-piece.Off)%max(piece.Align, 1) != 0 { // glibc refuses it (elf/dl-load.c)
				piece.Align = size
			}
			if n < whole.Filesz && !executable(im, &piece, whole.Off-whole.Vaddr) {
				piece.Flags &^= elf.PF_X // else eu-elflint complains
			}
			progs = append(progs, piece)
		})
		progs[len(progs)-1].Memsz += whole.Memsz - whole.Filesz
	}
	return append(progs, make([]elfimage.Prog, len(im.Progs)-len(progs))...) // PT_NULL
}

// executable reports whether a piece of a segment, which was in the file at its address and some more, holds code.
func executable(im *elfimage.Image, p *elfimage.Prog, more uint64) bool {
	off := p.Vaddr + more
	return slices.ContainsFunc(im.Sections, func(s elfimage.Section) bool {
		return s.Flags&elf.SHF_EXECINSTR != 0 && s.HasBytes() && s.Off < off+p.Filesz && off < s.Off+s.Size
	})
}

// Apply writes the thinned copy to w, which is empty.
func (c *Cut) Apply(w Writer) error {
	im, to := c.im, shifted{w, c}
	if err := c.copy(to); err != nil {
		return err
	}
	if err := c.plan.Apply(c.from, to); err != nil {
		return err
	}
	progs := c.progs()
	head := make([]byte, im.EhdrSize()+uint64(len(progs))*im.PhdrSize())
	if err := elfimage.ReadFull(c.from, head[:im.EhdrSize()], 0); err != nil {
		return err
	}
	shoff, sections := c.sectionTable()
	im.Order.PutUint64(head[40:], shoff)
	im.Order.PutUint16(head[60:], uint16(len(sections))) // e_shnum
	for i, p := range progs {
		im.EncodeProg(head[im.EhdrSize()+uint64(i)*im.PhdrSize():], p)
	}
	if _, err := w.WriteAt(head, 0); err != nil {
		return err
	}
	table := make([]byte, uint64(len(sections))*im.ShdrSize())
	for i, s := range sections {
		im.EncodeSection(table[uint64(i)*im.ShdrSize():], s)
	}
	if err := c.symbols(to, sections); err != nil {
		return err
	}
	_, err := w.WriteAt(table, int64(shoff))
	return err
}

// copy writes what stays, but zeros, and what the plan makes zeros.
func (c *Cut) copy(to shifted) error {
	buf := make([]byte, 256<<10)
	skip := c.holes
	for i := range c.plan.containers {
		if p := &c.plan.containers[i]; p.freeFrom() < p.end {
			skip = append(skip[:len(skip):len(skip)], hole{p.freeFrom(), p.end - p.freeFrom()})
		}
	}
	sort(skip)
	skip = append(skip, hole{off: uint64(c.im.Size())})
	at := uint64(0)
	for _, s := range skip {
		for at < s.off {
			b := buf[:min(uint64(len(buf)), s.off-at)]
			if err := elfimage.ReadFull(c.from, b, at); err != nil {
				return err
			}
			if !zero(b) {
				if _, err := to.WriteAt(b, int64(at)); err != nil {
					return err
				}
			}
			at += uint64(len(b))
		}
		at = max(at, s.end())
	}
	return nil
}

// symbols lets symbols name the piece of their section that they are in.
func (c *Cut) symbols(to shifted, sections []elfimage.Section) (err error) {
	im := c.im
	split := map[uint64]bool{}
	for i := range im.Sections {
		if sections[i].Size != im.Sections[i].Size {
			split[uint64(i)] = true
		}
	}
	size := im.SymSize()
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type != elf.SHT_SYMTAB {
			continue
		}
		failed := im.EachPiece(s.Off, s.Size/size, size, func(at uint64, b []byte) {
			for ; len(b) > 0; b, at = b[size:], at+size {
				shndx, value := im.Symbol(b)
				if !split[uint64(shndx)] || value-im.Sections[shndx].Addr >= im.Sections[shndx].Size || err != nil {
					continue
				}
				for k := len(im.Sections); k < len(sections); k++ {
					if p := &sections[k]; value >= p.Addr && value < p.Addr+p.Size {
						var index [2]byte
						im.Order.PutUint16(index[:], uint16(k))
						_, err = to.WriteAt(index[:], int64(at+symbolSection))
					}
				}
			}
		})
		if err = cmp.Or(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// symbolSection is the offset of st_shndx in a symbol of 64-bit files.
const symbolSection = 6

// shifted takes writes at the offsets of before.
type shifted struct {
	w Writer
	c *Cut
}

// WriteAt takes what is all in front of a hole, or behind it.
func (s shifted) WriteAt(b []byte, off int64) (n int, err error) {
	return s.w.WriteAt(b, int64(s.c.at(uint64(off))))
}

func (s shifted) Zero(off, n int64) (err error) {
	s.c.pieces(uint64(off), uint64(n), func(at, size uint64, hole bool) {
		if !hole && err == nil {
			err = s.w.Zero(int64(s.c.at(at)), int64(size))
		}
	})
	return err
}
