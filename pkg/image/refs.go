package image

import (
	"bytes"
	"debug/elf"
)

// stringTags are the dynamic entries whose value is an offset in the string table
// (gABI, "Dynamic Section"; the audit and auxiliary ones are GNU's and Sun's).
var stringTags = map[elf.DynTag]bool{
	elf.DT_NEEDED: true, elf.DT_SONAME: true, elf.DT_RPATH: true, elf.DT_RUNPATH: true,
	elf.DT_CONFIG: true, elf.DT_DEPAUDIT: true, elf.DT_AUDIT: true, elf.DT_AUXILIARY: true, elf.DT_FILTER: true,
	elf.DT_MIPS_IVERSION: true,
}

// dynSymbols returns the file offset and the number of the dynamic symbols. The
// loader needs no count; it stands in the section header, or follows from the
// hash table. known is false where it cannot be told.
func (im *Image) dynSymbols() (off, n uint64, known bool) {
	tab, ok := im.Dyn(elf.DT_SYMTAB)
	if !ok {
		return 0, 0, true
	}
	n, known = im.dynSymbolCount(tab.Val)
	if !known {
		return 0, 0, false
	}
	off, ok = im.fileOffset(tab.Val, n*im.symSize())
	return off, n, ok
}

func (im *Image) dynSymbolCount(addr uint64) (uint64, bool) {
	for i := range im.Sections {
		if s := &im.Sections[i]; s.Type == elf.SHT_DYNSYM && s.Addr == addr {
			return s.Size / im.symSize(), true
		}
	}
	if d, ok := im.Dyn(elf.DT_HASH); ok {
		w := im.hashWord()
		if b, ok := im.memory(d.Val, 2*w); ok {
			return im.uint(b[w:], w), true // nchain: one for each symbol
		}
	}
	if d, ok := im.Dyn(elf.DT_GNU_HASH); ok {
		n, _, ok := im.gnuHash(d.Val)
		return n, ok
	}
	return 0, false
}

// hashWord is the size of a DT_HASH word in bytes: 8 on Alpha and 64-bit s390, against the gABI's 4.
func (im *Image) hashWord() uint64 {
	if im.is64() && (im.Machine == elf.EM_S390 || im.Machine == elf.EM_ALPHA) {
		return 8
	}
	return 4
}

func (im *Image) uint(b []byte, size uint64) uint64 {
	if size == 8 {
		return im.order.Uint64(b)
	}
	return uint64(im.order.Uint32(b))
}

// memory returns n bytes at an address, from the file.
func (im *Image) memory(addr, n uint64) ([]byte, bool) {
	off, ok := im.fileOffset(addr, n)
	if !ok || n > im.size {
		return nil, false
	}
	if b, ok := im.view(off, n); ok {
		return b, true
	}
	b := make([]byte, n)
	return b, readFull(im.r, b, off) == nil
}

// gnuHash returns the number of dynamic symbols that a DT_GNU_HASH table covers,
// and its size in bytes. Its last chain ends at the last symbol (binutils,
// "GNU Hash ELF Sections").
func (im *Image) gnuHash(addr uint64) (symbols, size uint64, ok bool) {
	head, ok := im.memory(addr, 16)
	if !ok {
		return 0, 0, false
	}
	u32 := func(i int) uint64 { return uint64(im.order.Uint32(head[4*i:])) }
	nbuckets, symoffset, bloom := u32(0), u32(1), u32(2)
	buckets := addr + 16 + bloom*im.wordSize()
	b, ok := im.memory(buckets, 4*nbuckets)
	if !ok {
		return 0, 0, false
	}
	last := uint64(0)
	for ; len(b) >= 4; b = b[4:] {
		last = max(last, uint64(im.order.Uint32(b)))
	}
	chains := buckets + 4*nbuckets
	if last < symoffset {
		return symoffset, chains - addr, true
	}
	for {
		b, ok := im.memory(chains+4*(last-symoffset), 4)
		if !ok {
			return 0, 0, false
		}
		last++
		if im.order.Uint32(b)&1 != 0 {
			return last, chains + 4*(last-symoffset) - addr, true
		}
	}
}

// A stringRef is called with every offset in the dynamic string table that
// something other than a run path entry refers to.
type stringRef func(off uint64)

// eachStringRef reports the references that the format knows: dynamic entries,
// symbols, version needs and definitions, and sections that share the table.
// It returns false where it cannot see all of them.
func (im *Image) eachStringRef(ref stringRef) (complete bool, err error) {
	for _, d := range im.Dynamic {
		if stringTags[d.Tag] && d.Tag != elf.DT_RPATH && d.Tag != elf.DT_RUNPATH {
			ref(d.Val)
		}
	}
	off, n, known := im.dynSymbols()
	if !known {
		return false, nil
	}
	if err := im.eachSymbolName(off, n, ref); err != nil {
		return false, err
	}
	if err := im.eachVersionName(ref); err != nil {
		return false, err
	}
	return true, im.eachSharedName(ref)
}

func (im *Image) eachSymbolName(off, n uint64, ref stringRef) error {
	size := im.symSize()
	return im.eachPiece(off, n, size, func(_ uint64, b []byte) {
		for ; len(b) > 0; b = b[size:] {
			ref(uint64(im.order.Uint32(b))) // st_name comes first in both classes
		}
	})
}

// eachVersionName walks DT_VERNEED and DT_VERDEF (LSB, "Symbol Versioning").
// Their records are chained by relative offsets, which may not lead back.
func (im *Image) eachVersionName(ref stringRef) error {
	budget := im.size / 8 // records that fit in the file; overlapping ones are not followed without end
	walk := func(tag, count elf.DynTag, head, aux, cntAt, auxAt, nextAt, fileAt, auxNameAt, auxNextAt uint64) error {
		d, ok := im.Dyn(tag)
		if !ok {
			return nil
		}
		num, _ := im.Dyn(count)
		if num.Val > im.size/head {
			return malformed(num.Off, "%v is %d in a file of %d bytes", count, num.Val, im.size)
		}
		for addr, i := d.Val, uint64(0); i < num.Val; i++ {
			b, ok := im.memory(addr, head)
			if !ok {
				return malformed(d.Off, "%v record at address %#x is in no PT_LOAD", tag, addr)
			}
			if fileAt > 0 {
				ref(uint64(im.order.Uint32(b[fileAt:])))
			}
			a := addr + uint64(im.order.Uint32(b[auxAt:]))
			for j := uint16(0); j < im.order.Uint16(b[cntAt:]); j++ {
				ab, ok := im.memory(a, aux)
				if !ok {
					return malformed(d.Off, "%v record at address %#x is in no PT_LOAD", tag, a)
				}
				ref(uint64(im.order.Uint32(ab[auxNameAt:])))
				next := uint64(im.order.Uint32(ab[auxNextAt:]))
				if next == 0 {
					break
				}
				if budget == 0 {
					return malformed(d.Off, "%v has more records than the file has room for", tag)
				}
				budget--
				a += next
			}
			next := uint64(im.order.Uint32(b[nextAt:]))
			if next == 0 {
				break
			}
			addr += next
		}
		return nil
	}
	// Verneed: version, cnt, file, aux, next; Vernaux: hash, flags, other, name, next.
	if err := walk(elf.DT_VERNEED, elf.DT_VERNEEDNUM, 16, 16, 2, 8, 12, 4, 8, 12); err != nil {
		return err
	}
	// Verdef: version, flags, ndx, cnt, hash, aux, next; Verdaux: name, next.
	return walk(elf.DT_VERDEF, elf.DT_VERDEFNUM, 20, 8, 6, 12, 16, 0, 0, 4)
}

// eachSharedName reports the names of sections, and of symbols in tables other
// than .dynsym, where they are kept in the dynamic string table.
func (im *Image) eachSharedName(ref stringRef) error {
	dynstr := im.stringSection()
	if dynstr < 0 {
		return nil
	}
	if int(im.shstrndx) == dynstr {
		for i := range im.Sections {
			ref(uint64(im.Sections[i].NameOff))
		}
	}
	for i := range im.Sections {
		s := &im.Sections[i]
		if int(s.Link) == dynstr && s.Type == elf.SHT_SYMTAB {
			if s.Size > im.size || s.Off > im.size-s.Size {
				return malformed(im.shoff, "section %d lies outside the file", i)
			}
			if err := im.eachSymbolName(s.Off, s.Size/im.symSize(), ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// stringSection returns the index of the section header of the dynamic string
// table, or -1. Where none has its address, .dynamic says which it is (gABI,
// "sh_link"): an edit that was killed had moved the section and not yet DT_STRTAB.
func (im *Image) stringSection() int {
	linked := -1
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type == elf.SHT_STRTAB && s.Flags&elf.SHF_ALLOC != 0 && s.Addr == im.strtab {
			return i
		}
		if s.Type == elf.SHT_DYNAMIC && s.Off == im.dynOff && uint64(s.Link) < uint64(len(im.Sections)) && im.Sections[s.Link].Type == elf.SHT_STRTAB {
			linked = int(s.Link)
		}
	}
	return linked
}

// readTable reads the dynamic string table, which a new place needs whole.
func (p *planner) readTable() ([]byte, error) {
	if p.table == nil {
		table, err := p.im.read(p.im.strOff, p.im.strsz)
		if err != nil {
			return nil, err
		}
		p.table = table
	}
	return p.table, nil
}

// scrubs returns writes that zero the retired run paths in the table at file
// offset table, but for bytes that another string shares: the linker stores a
// string that is the tail of another only once (patchelf 162).
func (p *planner) scrubs(table uint64) ([]write, error) {
	var out []write
	for _, i := range p.retired {
		d := p.im.Dynamic[i]
		s, err := p.im.str(d)
		if err != nil {
			return nil, err
		}
		// The string that ends where this one does may begin earlier.
		start, err := p.stringStart(d.Val)
		if err != nil {
			return nil, err
		}
		end := d.Val + uint64(len(s))
		keep := end
		complete := true
		if !p.inOurRoom(d.Val) {
			complete, err = p.im.eachStringRef(func(off uint64) {
				if off >= start && off < keep {
					keep = off
				}
			})
			if err != nil {
				return nil, err
			}
		}
		if complete && keep > d.Val {
			out = append(out, write{off: table + d.Val, data: p.im.bytes(keep - d.Val)})
		}
	}
	return out, nil
}

// stringStart returns the offset behind the last NUL before off.
func (p *planner) stringStart(off uint64) (uint64, error) {
	for end := off; end > 0; {
		start := end - min(end, 512)
		b, err := p.im.read(p.im.strOff+start, end-start)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, 0); i >= 0 {
			return start + uint64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}
