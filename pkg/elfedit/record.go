package elfedit

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// recorded is a flag beside [elfimage.Editing], of a segment that goes on for the record of the edit until that is
// done.
const recorded elf.ProgFlag = 0x0040_0000

// A record is what an edit leaves at the end of the flagged segment, for who finishes it. Places are addresses,
// for strip moves offsets; offsets count in a file that nobody else has been at.
type record struct {
	at       uint64 // where the record itself is
	size     uint64 // of the file before
	end      uint64 // of the file after
	old, now uint32 // sums of .dynamic before its switch, and after
	grown    uint64 // p_vaddr of the flagged segment
	was      uint64 // what that mapped of the file before; 0: it is new

	// The program headers before and after, where others are in force until .dynamic is switched; those have
	// the sum, and a header of before or after is one of them, by index, or another one.
	force         uint32
	before, after []progRef

	wide           []sized // sections that are larger while .dynamic is switched
	moved          []moved
	dead           []deadSpan
	filled         []sized  // zeros of the file before that say something now
	silenced       deadSpan // the description of a note that counts no longer, and of the one that is to count
	note           deadSpan
	shoff, shnum   uint64 // the section headers before
	shoff2, shnum2 uint64 // and after
	table          uint32 // sum of these
	osabi          uint32 // of the file before
}

// A progRef is a program header, or the index of one that is in force.
type progRef struct {
	same           int // index, or -1
	*elfimage.Prog     // nil where there is an index
}

// sized is a section, by its address, and its size when .dynamic is not switched.
type sized struct{ addr, size uint64 }

// moved is a range that is elsewhere after the edit.
type moved struct{ addr, size, newAddr, newSize uint64 }

// deadSpan is a range and the sum of its bytes: where it is not mapped, addr is its offset.
type deadSpan struct {
	addr, size uint64
	sum        uint32
	unmapped   bool
}

// recordMark begins a record: then come its length and the sum of the rest, four bytes each.
const recordMark = "\x00@edit.1\x00"

const recordHead = len(recordMark) + 8

// maxRecord is the size of the largest record, in bytes.
const maxRecord = 64 << 10

// recordSpace is room enough for a record of an edit in which n blocks move, of a file with so many program headers,
// and with more of them afterwards (beside that of a new segment).
func recordSpace(n, progs, more int) uint64 { return alignUp(uint64(192+2*progs+16*more+72*n), 16) }

// A coder writes a record's numbers, or reads them: each field is named once.
type coder struct {
	b       []byte
	reading bool
	bad     bool
	base    uint64 // addresses are told from it
}

func (c *coder) num(v *uint64) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	got, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return
	}
	*v, c.b = got, c.b[n:]
}

func (c *coder) addr(v *uint64) {
	d := *v - c.base
	zigzag := d<<1 ^ uint64(int64(d)>>63)
	c.num(&zigzag)
	*v = c.base + (zigzag>>1 ^ -(zigzag & 1))
}

func (c *coder) sum(v *uint32) {
	n := uint64(*v)
	c.num(&n)
	*v = uint32(n)
}

// coded writes or reads a list.
func coded[T any](c *coder, list *[]T, one func(*T)) {
	n := uint64(len(*list))
	c.num(&n)
	if c.reading {
		if n > uint64(len(c.b)) { // each has a byte at least
			c.bad = true
			return
		}
		*list = make([]T, n)
	}
	for i := range *list {
		one(&(*list)[i])
	}
}

func (c *coder) dead(d *deadSpan) {
	mapped := d.size << 1
	if d.unmapped {
		mapped |= 1
	}
	c.num(&mapped)
	d.size, d.unmapped = mapped>>1, mapped&1 != 0
	if d.unmapped {
		c.num(&d.addr)
	} else {
		c.addr(&d.addr)
	}
	c.sum(&d.sum)
}

func (c *coder) prog(r *progRef) {
	same := uint64(r.same + 1)
	c.num(&same)
	if r.same = int(same) - 1; r.same >= 0 {
		return
	}
	if c.reading {
		r.Prog = new(elfimage.Prog)
	}
	typ, flags := uint64(r.Type), uint64(r.Flags)
	c.num(&typ)
	c.num(&flags)
	r.Type, r.Flags = elf.ProgType(typ), elf.ProgFlag(flags)
	c.num(&r.Off)
	c.addr(&r.Vaddr)
	c.addr(&r.Paddr)
	for _, v := range []*uint64{&r.Filesz, &r.Memsz, &r.Align} {
		c.num(v)
	}
}

func (c *coder) record(r *record) {
	c.num(&r.at)
	c.base = r.at
	c.num(&r.size)
	c.num(&r.end)
	c.sum(&r.old)
	c.sum(&r.now)
	c.addr(&r.grown)
	c.num(&r.was)
	c.sum(&r.force)
	coded(c, &r.before, c.prog)
	coded(c, &r.after, c.prog)
	coded(c, &r.wide, func(s *sized) { c.addr(&s.addr); c.num(&s.size) })
	coded(c, &r.moved, func(m *moved) { c.addr(&m.addr); c.num(&m.size); c.addr(&m.newAddr); c.num(&m.newSize) })
	coded(c, &r.dead, c.dead)
	coded(c, &r.filled, func(s *sized) { c.addr(&s.addr); c.num(&s.size) })
	c.dead(&r.silenced)
	c.dead(&r.note)
	for _, v := range []*uint64{&r.shoff, &r.shnum, &r.shoff2, &r.shnum2} {
		c.num(v)
	}
	c.sum(&r.table)
	c.sum(&r.osabi)
}

// encode appends the bytes of the record to none.
func (r *record) encode(none []byte) []byte {
	c := coder{b: append(none, recordMark+"\x00\x00\x00\x00\x00\x00\x00\x00"...)}
	c.record(r)
	body := c.b[recordHead:]
	binary.LittleEndian.PutUint32(c.b[len(recordMark):], uint32(len(body)))
	binary.LittleEndian.PutUint32(c.b[len(recordMark)+4:], checksum(body))
	return c.b
}

// readRecord returns the last record in b that is whole, its offset and its length, or nil.
func readRecord(b []byte) (r *record, at, n int) {
	mark, end := []byte(recordMark), len(b)
	for range 64 { // marks that begin no record: a stranger's
		if at = bytes.LastIndex(b[:end], mark); at < 0 {
			break
		}
		if r, n := parseRecord(b[at:]); r != nil {
			return r, at, n
		}
		end = at
	}
	return nil, 0, 0
}

func parseRecord(b []byte) (*record, int) {
	if len(b) < recordHead {
		return nil, 0
	}
	n, sum := binary.LittleEndian.Uint32(b[len(recordMark):]), binary.LittleEndian.Uint32(b[len(recordMark)+4:])
	rest := b[recordHead:]
	if n > maxRecord || int(n) > len(rest) || checksum(rest[:n]) != sum {
		return nil, 0
	}
	c, r := coder{b: rest[:n], reading: true}, &record{}
	if c.record(r); c.bad || len(c.b) > 0 {
		return nil, 0
	}
	return r, recordHead + int(n)
}

// progsSum is the sum of what program headers describe, wherever that is in the file.
func progsSum(progs []elfimage.Prog) uint32 {
	b := make([]byte, 0, 12*len(progs))
	for i := range progs {
		b = binary.LittleEndian.AppendUint32(b, uint32(progs[i].Type))
		b = binary.LittleEndian.AppendUint64(b, progs[i].Vaddr)
	}
	return checksum(b)
}

// refer returns program headers as ones of those that are in force, where they are among them.
func refer(list, force []elfimage.Prog) []progRef {
	out := make([]progRef, len(list))
	for i := range list {
		if out[i].same = slices.Index(force, list[i]); out[i].same < 0 {
			out[i].Prog = &list[i]
		}
	}
	return out
}

// dynamicSum is the sum of a dynamic section, without its terminator.
func (im *image) dynamicSum(entries []elfimage.Dyn) uint32 {
	b := im.Alloc(uint64(len(entries)) * im.DynSize())
	im.encodeEntries(b, entries)
	return checksum(b)
}

// putRecord puts the record of an edit where the layout has room for it, and returns the write that clears it. dead
// is what is zeroed at the end.
func (p *planner) putRecord(l *layout, dead []span) ([]write, error) {
	im := p.im
	r := &record{at: l.record.addr, size: im.size, end: l.size, old: im.dynamicSum(im.Dynamic),
		now: im.dynamicSum(l.entries), was: l.was,
		shoff: im.Shoff, shnum: uint64(len(im.Sections)), shoff2: l.shoff, shnum2: uint64(len(l.sections)),
		osabi: uint32(im.OSABI)}
	progs := p.marked(l)
	r.grown = progs[l.owner(l.progs)].Vaddr
	force := l.lent
	if force == nil {
		force = l.progs
	}
	others := len(force) != len(im.Progs) || len(l.progs) != len(im.Progs)
	for i := 0; i < len(force) && !others; i++ {
		others = (force[i] != im.Progs[i] || l.progs[i] != im.Progs[i]) && i != l.owner(force)
	}
	if others && l.dynamic == nil {
		r.force, r.before, r.after = progsSum(force), refer(im.Progs, force), refer(l.progs, force)
	}
	if l.wider > 0 {
		r.wide = []sized{{im.Sections[l.wide].Addr, im.Sections[l.wide].Size}}
	}
	r.moved = make([]moved, 0, len(l.moved)+1)
	for _, b := range l.moved {
		r.moved = append(r.moved, moved{b.addr, b.size, b.newAddr, b.newSize})
	}
	if l.table.addr != im.StrAddr || l.table.size != im.StrSize {
		r.moved = append(r.moved, moved{im.StrAddr, im.StrSize, l.table.addr, l.table.size})
	}
	deadAt := func(off, size uint64) (d deadSpan, err error) {
		d = deadSpan{addr: off, size: size, unmapped: true}
		for i := range progs {
			if q := &progs[i]; q.Type == elf.PT_LOAD && off >= q.Off && off+size <= q.Off+q.Filesz {
				d.addr, d.unmapped = q.Vaddr+off-q.Off, false
			}
		}
		if c := l.relocated; c != nil && !c.stays() && off >= c.to && off+size <= c.to+c.size {
			off -= c.to - c.off // in a copy
		}
		d.sum, err = im.sum(off, size)
		return d, err
	}
	r.dead = make([]deadSpan, 0, len(dead))
	for _, s := range dead {
		d, err := deadAt(s.off, s.size)
		if err != nil {
			return nil, err
		}
		r.dead = append(r.dead, d)
	}
	for _, w := range l.fresh {
		for i := range im.Progs {
			if q := &im.Progs[i]; q.Type == elf.PT_LOAD && w.off >= q.Off && w.off+w.len() <= q.Off+q.Filesz {
				r.filled = append(r.filled, sized{q.Vaddr + w.off - q.Off, w.len()})
			}
		}
	}
	if c := p.goal.cache; c != nil && !c.Silent {
		var err error
		if r.silenced, err = deadAt(c.Off, c.Size); err == nil {
			r.silenced.sum, err = im.sum(c.Off+noteHead, c.Size-noteHead)
		}
		if err != nil {
			return nil, err
		}
	}
	if n := l.note; n != nil {
		b := make([]byte, noteSize(p.goal.desc))
		im.putNote(b, p.goal.desc)
		r.note = deadSpan{addr: n.addr, size: uint64(len(b)), sum: checksum(b[noteHead:])}
	}
	if b := l.written(l.shoff, uint64(len(l.sections))*im.ShdrSize()); b != nil {
		r.table = checksum(b)
	}
	b := r.encode(im.Alloc(256)[:0])
	to := l.written(l.record.off, l.record.size)
	if uint64(len(b)) > uint64(len(to)) {
		return nil, cannot("the record of the edit would have %d bytes, more than %d", len(b), len(to))
	}
	copy(to, b)
	return []write{{off: l.record.off, data: zero(uint64(len(b)))}}, nil
}

func checksum(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// sum is that of n bytes of the file.
func (im *image) sum(off, n uint64) (sum uint32, err error) {
	const piece = 64 << 10
	for end := off + n; off < end; off += piece {
		b, err := im.Read(off, min(piece, end-off))
		if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, crc32.IEEETable, b)
	}
	return sum, nil
}
