package elfedit

import (
	"debug/elf"
	"math"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// An extent is a range of the file that can only move as one: a section, or several
// that a program header spans, such as the notes of one PT_NOTE.
type extent struct {
	off, size, addr uint64
	align           uint64
	rank            int  // order in a new segment
	movable         bool // nothing but headers and dynamic entries refers to it
	dynamic         bool // dynamic entries refer to it, and not only program headers
}

func (b *extent) end() uint64 { return b.off + b.size }

// join adds an extent that overlaps this one and does not begin before it.
func (b *extent) join(other *extent) {
	b.movable = b.movable && other.movable && other.addr-other.off == b.addr-b.off
	b.size = max(b.end(), other.end()) - b.off
	b.align = max(b.align, other.align)
	b.rank = max(b.rank, other.rank)
	b.dynamic = b.dynamic || other.dynamic
}

// A block is an extent that moves.
type block struct {
	extent                 // before
	newOff, newAddr uint64 // after
	newSize         uint64 // after; .dynamic and the interpreter can become larger

	sections, progs []int // what moves with it, by index
	named           bool  // a dynamic symbol names it, so code may read what is left behind
	foreign         bool  // a note of an unknown owner, whose offsets may be relative to itself
}

// Ranks in a new segment. llvm-strip and patchelf want notes and .interp first;
// patchelf wants the string table, which it may grow, last.
const (
	rankNote = iota
	rankInterp
	rankDynamicData
	rankDynamic
	rankStrings
)

// movableSection returns the rank of a kind of section that can be anywhere in read-only memory. Only program headers
// or dynamic entries refer to such a section, and it refers to itself only by relative offsets or indices.
func movableSection(t elf.SectionType) (rank int, ok bool) {
	const (
		relr        = elf.SectionType(19)
		mipsReginfo = elf.SectionType(0x7000_0006)
		mipsOptions = elf.SectionType(0x7000_000d)
	)
	switch t {
	case elf.SHT_NOTE, elf.SHT_MIPS_ABIFLAGS, mipsReginfo:
		return rankNote, true
	case elf.SHT_HASH, elf.SHT_GNU_HASH, elf.SHT_DYNSYM, elf.SHT_GNU_VERSYM, elf.SHT_GNU_VERDEF, elf.SHT_GNU_VERNEED,
		elf.SHT_REL, elf.SHT_RELA, relr, mipsOptions:
		return rankDynamicData, true
	}
	return 0, false
}

// dynamicPointers are the entries that hold the address of something that can move.
var dynamicPointers = []elf.DynTag{
	elf.DT_HASH, elf.DT_GNU_HASH, elf.DT_SYMTAB, elf.DT_VERSYM, elf.DT_VERNEED, elf.DT_VERDEF,
	elf.DT_RELA, elf.DT_REL, elf.DT_JMPREL, elf.DynTag(36), elf.DT_MIPS_OPTIONS, // 36: DT_RELR
}

// extents returns everything in the file that has a header or a dynamic entry of its own, in order of offset, with
// overlapping ranges joined. The caller must not change them. What .dynamic points to counts on its own, because
// there may be no section headers.
func (im *image) extents() []extent {
	if len(im.all) > 0 {
		return im.all
	}
	owners := im.owned()
	all := slices.Grow(im.work().extents[:0], len(owners)+1)
	interp, anchor, word := im.Prog(elf.PT_INTERP), im.anchorSection(), im.WordSize()
	for _, o := range owners {
		e := extent{off: o.Off, size: o.Size, addr: o.Addr}
		switch o.Kind {
		case elfimage.OfSection:
			s := &im.Sections[o.Index]
			if o.Index == anchor { // a hole
				continue
			}
			if !s.HasBytes() { // patchelf, on mold's no-PIE programs, puts .bss where it leaves room in the file
				break
			}
			rank, ok := movableSection(s.Type)
			if interp != nil && s.Type == elf.SHT_PROGBITS && s.Off == interp.Off && s.Size == interp.Filesz {
				rank, ok = rankInterp, true
			}
			if s.Type == elf.SHT_STRTAB && s.Addr == im.StrAddr {
				rank, ok = rankStrings, true
			}
			// code may refer to it: __rela_iplt_start of a static program
			if (s.Type == elf.SHT_REL || s.Type == elf.SHT_RELA) && !im.pointedTo(s) {
				ok = false
			}
			e.align, e.rank, e.dynamic = s.Addralign, rank, rank >= rankDynamicData
			e.movable = ok && s.Flags&elf.SHF_ALLOC != 0 && s.Flags&(elf.SHF_WRITE|elf.SHF_EXECINSTR) == 0
		case elfimage.OfSegment:
			p := &im.Progs[o.Index]
			e.align = p.Align
			if e.movable = movableProg(p.Type); p.Type == elf.PT_INTERP {
				e.rank = rankInterp
			} else if e.movable {
				e.rank = rankNote
			}
		case elfimage.OfDynamic:
			e.align, e.rank, e.movable, e.dynamic = word, rankDynamicData, true, true
			switch {
			case o.Tag == elf.DT_STRTAB:
				e.align, e.rank = 1, rankStrings
			case o.Tag == elf.DT_VERSYM:
				e.align = 2
			case o.Tag == elf.DT_VERNEED, o.Tag == elf.DT_VERDEF: // of 32-bit words in both classes
				e.align = 4
			case o.Tag == elf.DT_HASH:
				e.align = im.HashWord()
			case !slices.Contains(dynamicPointers, o.Tag):
				continue
			}
		default:
			continue
		}
		all = append(all, e)
	}
	if p := im.Prog(elf.PT_GNU_RELRO); p != nil && p.HasBytes() {
		i := slices.IndexFunc(all, func(e extent) bool { return e.off >= p.Off })
		if i < 0 {
			i = len(all)
		}
		all = slices.Insert(all, i, extent{off: p.Off, size: p.Filesz, addr: p.Vaddr, align: p.Align})
	}
	im.all = all[:0]
	for i := range all {
		if n := len(im.all); n > 0 && all[i].off < im.all[n-1].end() {
			im.all[n-1].join(&all[i])
		} else {
			im.all = append(im.all, all[i])
		}
	}
	im.scratch.extents = im.all
	return im.all
}

// pointedTo reports whether a dynamic entry points to a section.
func (im *image) pointedTo(s *elfimage.Section) bool {
	for _, d := range im.Dynamic {
		if d.Val < s.Addr || d.Val >= s.Addr+s.Size || !slices.Contains(dynamicPointers, d.Tag) {
			continue
		}
		if last, _ := im.Dyn(d.Tag); last == d {
			return true
		}
	}
	return false
}

// members finds the headers of what is in a block. Overlapping ranges are joined, so what begins in a block ends in
// it.
func (im *image) members(b *block) {
	b.sections, b.progs = take(&im.work().indices, 4), take(&im.work().indices, 4)
	for i := range im.Sections {
		if s := &im.Sections[i]; s.HasBytes() && s.Off >= b.off && s.Off < b.end() {
			b.sections = append(b.sections, i)
		}
	}
	for i := range im.Progs {
		if p := &im.Progs[i]; p.HasBytes() && p.Off >= b.off && p.Off < b.end() {
			b.progs = append(b.progs, i)
		}
	}
}

// movingFor returns the file's extents that must make room for the bytes [from, to), or an error if something there
// cannot move. known are those for [from, x), with x at most to.
func (p *planner) movingFor(from, to uint64, known []block) ([]block, error) {
	im := p.im
	extents, out := im.extents(), known
	if known == nil {
		out = take(&im.work().blocks, 4)
	}
	var err error
	free := max(from, im.staleEnd()) // the range is accounted for up to here
	_, _, counted := im.DynSymbols()
	// Only padding may be between headers, or what patchelf writes over sections that it has moved away: Xs, since
	// 0.13 Zs.
	unused := func(end uint64) error {
		if end <= free {
			return nil
		}
		b, err := im.Read(free, end-free)
		if err != nil {
			return err
		}
		const padding = 16 // bytes: see unowned
		if uint64(len(b)) >= padding && len(im.Sections) == 0 && im.findRoom().size == 0 {
			return cannot("unknown data after the program headers at offset %#x", free)
		}
		n := leadingZeros(b)
		if len(im.Sections) > 0 {
			n = filler(b)
		}
		if n < len(b) {
			return cannot("unknown data after the program headers at offset %#x", free+uint64(n))
		}
		return nil
	}
	for i := range extents {
		if extents[i].end() <= from || extents[i].off >= to {
			continue
		}
		if len(known) > 0 && known[0].off == extents[i].off {
			if err := unused(known[0].off); err != nil {
				return nil, err
			}
			free, known = known[0].end(), known[1:]
			continue
		}
		b := block{extent: extents[i]}
		im.members(&b)
		if b.off < from && len(b.sections) == 0 && b.movable {
			// patchelf has made the table grow over what a PT_GNU_PROPERTY describes, and left that header behind.
			continue
		}
		if p.im.holdsDynamic(b) {
			b.rank, b.movable = rankDynamic, true
		}
		if !b.movable || b.off < from {
			return nil, cannot("the data after the program headers at offset %#x cannot move", b.off)
		}
		if err := unused(b.off); err != nil {
			return nil, err
		}
		if !counted {
			return nil, im.uncounted()
		}
		if off, ok := im.FileOffset(b.addr, b.size); !ok || off != b.off {
			return nil, elfimage.Malformed(b.off, "section or program header says address %#x, where no PT_LOAD maps it", b.addr)
		}
		free = b.end()
		if b.foreign, err = im.foreignNote(b); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	if to > im.size {
		return nil, elfimage.Malformed(from, "program headers end with the file")
	}
	return out, unused(to)
}

// foreignNote reports whether a block holds a note of an owner whose notes may not move. Chromium's
// .note.crashpad.info and Firefox' .note.moz.annotation hold offsets that count from the note.
func (im *image) foreignNote(b block) (bool, error) {
	for _, i := range b.sections {
		s := &im.Sections[i]
		if s.Type != elf.SHT_NOTE {
			continue
		}
		if known, err := im.NotesAreOf(placelessNotes, s.Off, s.Size, s.Addralign); !known || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// placelessNotes are the owners whose notes can be anywhere. We know what the last two hold: a cache of paths, and a
// build ID.
var placelessNotes = []string{"GNU", "FDO", "NixOS", "Go"}

// uncounted is the error if symbols must be looked at and nothing tells their number. A DT_GNU_HASH without symbols
// does not tell it, and one that cannot be read is malformed.
func (im *image) uncounted() error {
	const what = "neither section headers nor a hash table give the number of dynamic symbols"
	if d, ok := im.Dyn(elf.DT_GNU_HASH); ok {
		if _, _, readable := im.GNUHash(d.Val); readable {
			return cannot(what)
		}
	}
	return elfimage.Malformed(im.DynOff, what)
}

// holdsDynamic reports whether a block is the dynamic section and nothing else.
func (im *image) holdsDynamic(b block) bool {
	return im.hasDynamic() && b.off == im.DynOff && b.size == im.Prog(elf.PT_DYNAMIC).Filesz
}

// unreferenced makes sure that no dynamic symbol names an address in the blocks, because code elsewhere could refer
// to it.
func (p *planner) unreferenced(blocks ...block) error {
	if len(blocks) == 0 {
		return nil
	}
	im := p.im
	off, n, known := im.DynSymbols()
	if !known {
		return im.uncounted()
	}
	low, high := uint64(math.MaxUint64), uint64(0)
	for _, b := range blocks {
		low, high = min(low, b.addr), max(high, b.addr+b.size)
	}
	size, named := im.SymSize(), false
	err := im.EachPiece(off, n, size, func(_ uint64, s []byte) {
		for ; len(s) > 0; s = s[size:] {
			shndx, value := im.Symbol(s)
			if value < low || value >= high || shndx == elf.SHN_UNDEF || shndx >= elf.SHN_LORESERVE {
				continue
			}
			// The value of a TLS symbol is an offset in its segment, not an address.
			if info, _ := im.SymbolInfo(s); elf.ST_TYPE(info) == elf.STT_TLS {
				continue
			}
			for _, b := range blocks {
				named = named || value >= b.addr && value < b.addr+b.size
			}
		}
	})
	if err == nil && named {
		err = cannot("a dynamic symbol names the data after the program headers")
	}
	return err
}
