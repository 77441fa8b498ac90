package judge

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// movable are the kinds of sections that a header or an entry finds, so that they may be elsewhere.
var movable = map[uint32]bool{
	shtNote: true, shtHash: true, shtGnuHash: true, shtDynsym: true, shtVersym: true, shtVerdef: true, shtVerneed: true,
	shtRel: true, shtRela: true, shtRelr: true, shtStrtab: true, shtDynamic: true,
	0x70000006: true, 0x7000000d: true, 0x7000002a: true, 0x7000002b: true, // MIPS: REGINFO, OPTIONS, ABIFLAGS, XHASH
}

// sections compares the section headers one by one, and what is in the file at them.
func (c *comparison) sections() {
	a, b := c.a, c.b
	match := c.match()
	interp := a.ofKind(ptInterp)
	for i, s := range a.sects {
		j := match[i]
		if j < 0 {
			continue
		}
		t := b.sects[j]
		if c.isHole(a, s) && c.isHole(b, t) {
			continue
		}
		name := fmt.Sprintf("section %d %s", i, s.name)
		link := func(v uint32) uint32 {
			if int(v) < len(match) && match[v] >= 0 {
				return uint32(match[v])
			}
			return v
		}
		if s.name != t.name || s.kind != t.kind || s.flags != t.flags || link(s.link) != t.link || s.align != t.align ||
			s.entrySize != t.entrySize ||
			s.info != t.info && !(s.flags&0x40 != 0 && link(s.info) == t.info) && !(s.kind == shtSymtab && len(c.gone) > 0) {
			c.bad("sections", "%s: %+v became %+v", name, s, t)
		}
		alloc := s.flags&shfAlloc != 0
		_, strSize := a.strings()
		strAt, _ := a.strings()
		isStrings := s.kind == shtStrtab && alloc && s.addr == strAt && strSize > 0
		isNames := uint64(i) == a.head.shstrndx
		if s.size != t.size && !isStrings && s.kind != shtDynamic && !(isNames && t.size > s.size) &&
			!(s.kind == shtProgbits && c.isInterp(s)) &&
			!(s.kind == shtSymtab && len(c.gone) > 0) {
			c.bad("sections", "%s: %d bytes became %d", name, s.size, t.size)
			continue
		}
		if s.addr != t.addr && s.align > 1 && s.addr%s.align == 0 && t.addr%s.align != 0 {
			if s.kind == shtStrtab { // read byte by byte; only its header says more
				c.remark("alignment", "%s, of alignment %d, is at %#x", name, s.align, t.addr)
			} else {
				c.bad("alignment", "%s, of alignment %d, is at %#x", name, s.align, t.addr)
			}
		}
		if s.addr != t.addr {
			isInterp := len(interp) > 0 && s.kind == shtProgbits && s.addr == interp[0].vaddr
			if !alloc || s.flags&shfTLS != 0 || !movable[s.kind] && !isInterp || s.kind == shtStrtab && !isStrings {
				c.bad("sections", "%s moved from %#x to %#x", name, s.addr, t.addr)
			} else {
				c.left = append(c.left, part{of(s.addr, s.size), s.name})
			}
		}
		if s.kind == shtNull && (s.nameAt != t.nameAt || s.off != t.off) {
			c.bad("sections", "%s: %+v became %+v", name, s, t)
		}
		if s.kind == shtNobits || s.kind == shtNull {
			continue
		}
		now, ok := b.content(t)
		old, ok2 := a.content(s)
		if !ok2 {
			continue // broken before
		}
		if !ok {
			c.bad("sections", "%s is outside the file: %+v", name, t)
			continue
		}
		if alloc && t.size > 0 && slices.Contains(a.mapped(of(s.off, s.size)), of(s.addr, s.size)) &&
			!slices.Contains(b.mapped(of(t.off, t.size)), of(t.addr, t.size)) {
			c.bad("sections", "%s: offset %#x is not what address %#x maps", name, t.off, t.addr)
		}
		switch {
		case s.kind == shtDynamic, isStrings, s.kind == shtSymtab, s.kind == shtDynsym,
			c.isInterp(s) && c.want.Interpreter != nil:
			// By meaning, elsewhere.
		case s.kind == shtVersym && len(c.want.Cleared) > 0, s.kind == shtVerneed:
		case isNames:
			if !bytes.HasPrefix(now, old) && len(c.gone) == 0 {
				c.bad("sections", "%s: its content changed", name)
			}
		case alloc && s.flags&shfWrite != 0 && s.addr == t.addr:
			// memory compares it
		default:
			if !bytes.Equal(old, now) {
				c.bad("sections", "%s: its content changed", name)
			}
		}
		if isStrings {
			if nowAt, nowSize := b.strings(); t.addr != nowAt || t.size < nowSize {
				if s.addr == strAt && s.size == strSize {
					c.bad("sections", "%s says %v, DT_STRTAB %v", name, of(t.addr, t.size), of(nowAt, nowSize))
				}
			}
		}
		if s.kind == shtDynamic && of(s.addr, s.size) == a.dynAt && of(t.addr, t.size) != b.dynAt {
			c.bad("sections", "%s says %v, PT_DYNAMIC %v", name, of(t.addr, t.size), b.dynAt)
		}
	}
	// The tables that the headers describe are those that .dynamic names.
	for kind, tag := range map[uint32]uint64{shtDynsym: dtSymtab, shtHash: dtHash, shtGnuHash: dtGnuHash,
		shtVersym: dtVersym, shtVerneed: dtVerneed, shtVerdef: dtVerdef} {
		x, ok := a.one(tag)
		y, ok2 := b.one(tag)
		if !ok || !ok2 {
			continue
		}
		if _, agreed := a.sectionAt(kind, x); agreed {
			if _, agree := b.sectionAt(kind, y); !agree {
				c.bad("sections", "tag %#x says %#x, and no section of kind %#x does", tag, y, kind)
			}
		}
	}
}

// isHole reports whether a section only marks a hole of zeros that an earlier edit has left.
func (c *comparison) isHole(f *File, s section) bool {
	if s.kind != shtProgbits || s.flags&^shfWrite != shfAlloc || !slices.Contains(c.want.Holes, s.name) {
		return false
	}
	data, ok := f.content(s)
	return ok && len(bytes.Trim(data, "\x00XZ")) == 0
}

func (c *comparison) isInterp(s section) bool {
	p := c.a.ofKind(ptInterp)
	return len(p) > 0 && s.addr == p[0].vaddr && s.kind == shtProgbits
}

// match maps each section before to one after. Sections keep their number; the
// resolution cache may be gone, and one that only marks a hole of zeros be new.
func (c *comparison) match() []int {
	a, b := c.a, c.b
	out := make([]int, len(a.sects))
	if len(a.sects) > 0 && len(b.sects) == 0 {
		c.bad("sections", "the section headers are gone")
		for i := range out {
			out[i] = -1
		}
		return out
	}
	next := 0
	for i, s := range a.sects {
		if s.name == cacheHole && c.want.Note != nil { // room of an earlier note
			if content, ok := a.content(s); !ok || len(bytes.Trim(content, "\x00")) > 0 || next >= len(b.sects) {
				c.bad("sections", "section %d %s is no hole", i, s.name)
			}
			c.left = append(c.left, part{of(s.addr, s.size), s.name})
			out[i] = -1
			next++
			continue
		}
		if s.name == cacheName && c.cacheGone() {
			// Its header may stay, and name no note.
			if next < len(b.sects) && (b.sects[next].kind == shtNull || b.sects[next].name == s.name ||
				b.sects[next].addr == s.addr && b.sects[next].kind != shtNote) {
				out[i] = -1
				next++
				continue
			}
			c.gone[i] = true
			out[i] = -1
			continue
		}
		if next >= len(b.sects) {
			c.bad("sections", "section %d %s is gone", i, s.name)
			out[i] = -1
			continue
		}
		out[i] = next
		next++
	}
	holes := 0
	for j := next; j < len(b.sects); j++ {
		t := b.sects[j]
		content, ok := b.content(t)
		// The section headers of before, where they have moved, are as dead as zeros.
		old := of(a.head.shoff, a.head.shnum*uint64(a.head.shentsize))
		if a.head.shoff != b.head.shoff {
			content = slices.Clone(content)
			for _, part := range without([]span{of(t.off, t.size)}, without([]span{of(t.off, t.size)}, old)...) {
				clear(content[part.lo-t.off : part.hi-t.off])
			}
		}
		// patchelf fills holes with letters
		if t.name != cacheHole && t.flags&shfExec == 0 && ok && len(bytes.Trim(content, "\x00XZ")) == 0 {
			holds := slices.ContainsFunc(b.loads(), func(p segment) bool { // so that a segment has a section whatever else goes
				at := of(p.vaddr, p.memsz)
				return p.off > 0 && (t.addr == at.lo || at.has(t.addr) && t.addr+t.size <= at.hi &&
					!slices.ContainsFunc(b.sects, func(o section) bool {
						return o.flags&shfAlloc != 0 && o.size > 0 && o.addr != t.addr && at.has(o.addr)
					}))
			})
			if holds && t.flags&^shfWrite == shfAlloc {
				continue
			}
			if a.head.kind == typeExec && holes == 0 && t.flags&shfWrite == 0 {
				c.remark("sections", "section %s is new, a hole of %d bytes", t.name, t.size)
				holes++
				continue
			}
		}
		if c.want.Note != nil && *c.want.Note != "" && t.flags == shfAlloc &&
			(t.name == cacheName && t.kind == shtNote || t.name == cacheHole && ok && len(bytes.Trim(content, "\x00")) == 0) {
			continue // newNote judges it
		}
		c.bad("sections", "section %d %+v is new", j, t)
	}
	return out
}

// A source is a range of addresses of a loaded image and its bytes; nil stands for zeros.
type source struct {
	span
	data  []byte
	flags uint32
}

// image returns what the segments map, in ascending order, without overlaps.
func (f *File) image() (out []source) {
	for _, p := range f.loads() {
		n := min(p.filesz, p.memsz)
		if p.off > uint64(len(f.data)) || n > uint64(len(f.data))-p.off {
			n = uint64(len(f.data)) - min(p.off, uint64(len(f.data)))
		}
		if n > 0 {
			out = append(out, source{of(p.vaddr, n), f.data[p.off : p.off+n], p.flags})
		}
		if p.memsz > n {
			out = append(out, source{span{p.vaddr + n, p.vaddr + p.memsz}, nil, p.flags})
		}
	}
	slices.SortStableFunc(out, func(x, y source) int { return cmpUint(x.lo, y.lo) })
	return out
}

var zeros [1 << 16]byte

// memory compares every byte that a segment mapped before. What is left after all that
// is explained has been taken out is a finding.
func (c *comparison) memory() {
	a, b := c.a, c.b
	now := b.image()
	var differs []span
	add := func(s span) {
		if n := len(differs); n > 0 && differs[n-1].hi == s.lo {
			differs[n-1].hi = s.hi
			return
		}
		differs = append(differs, s)
	}
	for _, s := range a.image() {
		for at := s.lo; at < s.hi; {
			i := slices.IndexFunc(now, func(t source) bool { return t.has(at) })
			if i < 0 {
				end := s.hi
				for _, t := range now {
					if t.lo > at {
						end = min(end, t.lo)
					}
				}
				c.bad("memory", "%v is not mapped any more", span{at, end})
				at = end
				continue
			}
			t := now[i]
			end := min(s.hi, t.hi)
			if s.flags != t.flags && !(s.flags|flagW == t.flags && slices.ContainsFunc(b.loads(),
				func(q segment) bool { return q.vaddr <= at && at < q.vaddr+q.memsz && c.holdsNewDynamic(q) })) {
				c.bad("memory", "%v had flags %#x and has %#x", span{at, end}, s.flags, t.flags)
			}
			for at < end {
				n := min(end-at, uint64(len(zeros)))
				x, y := zeros[:n], zeros[:n]
				if s.data != nil {
					x = s.data[at-s.lo:][:n]
				}
				if t.data != nil {
					y = t.data[at-t.lo:][:n]
				}
				if !bytes.Equal(x, y) {
					for k := range x {
						if x[k] != y[k] {
							add(of(at+uint64(k), 1))
						}
					}
				}
				at += n
			}
		}
	}
	if len(differs) == 0 {
		return
	}
	// The ELF header, the entries and the symbols are compared by meaning; so is the string table.
	explained := a.mapped(of(0, uint64(a.head.ehsize)))
	explained = append(explained, a.mapped(a.phdrTable())...)
	if a.head.shoff > 0 { // Go's linker and patchelf have the section headers in a segment; sections compares them
		explained = append(explained, a.mapped(of(a.head.shoff, a.head.shnum*uint64(a.head.shentsize)))...)
	}
	if a.dynAt.lo == b.dynAt.lo {
		explained = append(explained, a.dynAt)
	}
	at, size := a.strings()
	explained = append(explained, of(at, size))
	if at, ok := a.one(dtSymtab); ok {
		n, _ := a.symbolCount()
		explained = append(explained, of(at, n*a.symSize()))
	}
	if _, where, ok := a.needed(); ok && len(c.want.Renamed) > 0 {
		explained = append(explained, where)
	}
	if at, ok := a.one(dtVersym); ok && len(c.want.Cleared) > 0 {
		n, _ := a.symbolCount()
		explained = append(explained, of(at, 2*n))
	}
	if c.want.Interpreter != nil {
		for _, p := range a.ofKind(ptInterp) {
			explained = append(explained, of(p.vaddr, p.memsz))
		}
	}
	explained = append(explained, c.movedValues()...)
	for _, p := range c.left {
		explained = append(explained, p.span)
		for _, d := range differs {
			if d.overlaps(p.span) {
				c.changed = append(c.changed, span{max(d.lo, p.lo), min(d.hi, p.hi)})
			}
		}
	}
	unexplained := without(differs, explained...)
	// The program headers may grow over what is padding.
	table := b.mapped(b.phdrTable())
	for _, s := range unexplained {
		inTable := slices.ContainsFunc(table, func(t span) bool { return t.contains(s) })
		if inTable && c.padding(s) {
			continue
		}
		x, _ := a.memory(s.lo, min(s.hi-s.lo, 24))
		y, _ := b.memory(s.lo, min(s.hi-s.lo, 24))
		where := c.owner(s.lo)
		if inTable {
			where += ", and the program headers are there now"
		}
		c.bad("memory", "%v changed, % x became % x (%s)", s, x, y, where)
	}
}

// movedValues returns the addresses of st_value in a .symtab that is no section of memory, but stands in the bytes of a
// segment: eu-strip puts one there, over a segment that patchelf has appended, where relocations refer to it. Only the
// values of symbols count whose section is elsewhere by as much; symbols compares all the rest of it.
func (c *comparison) movedValues() (out []span) {
	a, b := c.a, c.b
	for i, s := range a.sects {
		if s.kind != shtSymtab || s.flags&shfAlloc != 0 || len(c.gone) > 0 || i >= len(b.sects) || b.sects[i].off != s.off ||
			b.sects[i].size != s.size {
			continue
		}
		old, ok := a.content(s)
		now, ok2 := b.content(b.sects[i])
		if !ok || !ok2 {
			continue
		}
		valueAt := a.word() // st_value comes second in 32-bit files, and after 8 bytes in 64-bit ones (gABI, "Symbol Table")
		x, y := a.symbols(old, nil), b.symbols(now, nil)
		for k := range x {
			from, to := int(x[k].shndx), int(y[k].shndx)
			if from == to && from > 0 && from < len(a.sects) && from < len(b.sects) && y[k].value != x[k].value &&
				y[k].value-x[k].value == b.sects[to].addr-a.sects[from].addr {
				out = append(out, a.mapped(of(s.off+uint64(k)*a.symSize()+valueAt, a.word()))...)
			}
		}
	}
	return out
}

// owner names what is at an address before.
func (c *comparison) owner(at uint64) string {
	for _, s := range c.a.sects {
		if s.flags&shfAlloc != 0 && of(s.addr, s.size).has(at) && s.flags&shfTLS == 0 {
			return s.name
		}
	}
	for _, p := range c.a.segs {
		if p.kind != ptLoad && of(p.vaddr, p.memsz).has(at) {
			return fmt.Sprintf("program header of kind %#x", p.kind)
		}
	}
	if len(c.a.sects) > 0 {
		return "no section"
	}
	return "nothing tells what it is"
}

// padding reports whether bytes before the edit belonged to nothing: zeros, or the letters that patchelf fills with, in
// no section; without section headers, a gap of a few zeros between what moved.
func (c *comparison) padding(s span) bool {
	a := c.a
	b, ok := a.memory(s.lo, s.hi-s.lo)
	if !ok {
		return false
	}
	for _, t := range a.sects {
		if t.flags&shfAlloc != 0 && t.flags&shfTLS == 0 && t.size > 0 && of(t.addr, t.size).overlaps(s) && !c.isHole(a, t) {
			return false
		}
	}
	for _, p := range a.segs {
		if p.kind != ptLoad && p.kind != ptNull && p.kind != ptRelro && p.kind != ptPhdr && p.memsz > 0 &&
			p.kind != ptStack && of(p.vaddr, p.memsz).overlaps(s) && !a.abandoned(p) {
			return false
		}
	}
	if len(a.sects) > 0 {
		return len(bytes.Trim(b, "\x00XZ")) == 0
	}
	return s.hi-s.lo < 64 && len(bytes.Trim(b, "\x00")) == 0
}

// abandoned reports whether a program header describes nothing but letters, and perhaps program headers: patchelf
// before 0.15 moved .note.gnu.property, wrote over its place, and left its program header.
func (f *File) abandoned(p segment) bool {
	if p.kind != ptProperty {
		return false
	}
	for _, rest := range without([]span{of(p.vaddr, p.memsz)}, f.mapped(f.phdrTable())...) {
		if b, ok := f.memory(rest.lo, rest.hi-rest.lo); !ok || len(bytes.Trim(b, "X")) > 0 {
			return false
		}
	}
	return true
}

// pointers makes sure that nothing refers to bytes that were taken for dead: no relocation stores their address, no
// dynamic symbol names them.
func (c *comparison) pointers() {
	if len(c.changed) == 0 {
		return
	}
	sorted := slices.Clone(c.changed)
	slices.SortFunc(sorted, func(x, y span) int { return cmpUint(x.lo, y.lo) })
	hit := func(at uint64) bool {
		i, _ := slices.BinarySearchFunc(sorted, at, func(s span, at uint64) int {
			if s.hi <= at {
				return -1
			}
			return 1
		})
		return i < len(sorted) && sorted[i].has(at)
	}
	inLeft := func(at uint64) (name string, begins, ok bool) {
		for _, p := range c.left {
			if p.has(at) {
				name, ok, begins = p.name, true, begins || p.lo == at
			}
		}
		return name, begins, ok
	}
	for target, from := range c.a.pointers() {
		if name, begins, ok := inLeft(target); ok && (hit(target) || c.overlapsChanged(target, sorted)) {
			if begins { // the end of what is before it, or the table itself, whose address .dynamic says now
				c.remark("pointer", "the relocation of %#x stores %#x, the old address of %s", from, target, name)
				continue
			}
			c.bad("pointer", "the relocation of %#x stores %#x, in what %s left behind", from, target, name)
		}
	}
	symbols, _, _ := c.b.dynSymbols()
	for _, s := range symbols {
		if s.shndx == 0 || s.shndx >= 0xff00 || s.info&0xf == 6 || s.info&0xf == 3 {
			continue
		}
		if name, _, ok := inLeft(s.value); ok && hit(s.value) {
			c.bad("pointer", "the symbol %s is at %#x, in what %s left behind", s.name, s.value, name)
		}
	}
}

// overlapsChanged: a pointer to the beginning of something whose first bytes happen to be the same.
func (c *comparison) overlapsChanged(at uint64, sorted []span) bool {
	for _, s := range sorted {
		if s.lo >= at && s.lo < at+16 {
			return true
		}
	}
	return false
}

// symbols compares both symbol tables by meaning. What a symbol names may have moved with its section.
func (c *comparison) symbols() {
	a, b := c.a, c.b
	x, exact, err := a.dynSymbols()
	if err != nil {
		return // broken before
	}
	y, _, err := b.dynSymbols()
	if err != nil {
		c.bad("symbols", "%v", err)
		return
	}
	if !exact && len(y) > len(x) {
		y = y[:len(x)]
	}
	c.sameSymbols(".dynsym", x, y)
	match := 0
	for i, s := range a.sects {
		if s.kind != shtSymtab {
			continue
		}
		j := i
		for range c.gone {
			if j >= len(b.sects) || b.sects[j].kind != shtSymtab {
				j--
			}
		}
		match++
		if j >= len(b.sects) || b.sects[j].kind != shtSymtab || int(s.link) >= len(a.sects) ||
			int(b.sects[j].link) >= len(b.sects) {
			c.bad("symbols", "section %d, a symbol table, is none now", i)
			continue
		}
		old, ok := a.content(s)
		now, ok2 := b.content(b.sects[j])
		names, ok3 := a.content(a.sects[s.link])
		names2, ok4 := b.content(b.sects[b.sects[j].link])
		if !ok || !ok3 {
			continue
		}
		if !ok2 || !ok4 {
			c.bad("symbols", "%s is outside the file", s.name)
			continue
		}
		c.sameSymbols(s.name, a.symbols(old, names), b.symbols(now, names2))
	}
}

func (c *comparison) sameSymbols(table string, x, y []symbol) {
	if len(c.gone) > 0 { // the symbol of the section that is gone goes with it
		x = slices.DeleteFunc(slices.Clone(x), func(s symbol) bool { return c.gone[int(s.shndx)] && s.shndx > 0 })
		if len(y) > len(x) {
			y = slices.DeleteFunc(slices.Clone(y), func(s symbol) bool { return s.info == 3 && s.shndx == 0 && s.value == 0 })
		}
	}
	if len(x) != len(y) {
		c.bad("symbols", "%s: %d symbols became %d", table, len(x), len(y))
		return
	}
	a, b := c.a, c.b
	for i := range x {
		s, t := x[i], y[i]
		if s == t {
			continue
		}
		if s.name != t.name || s.info != t.info || s.other != t.other || s.size != t.size ||
			s.shndx != t.shndx && len(c.gone) == 0 {
			c.bad("symbols", "%s: symbol %d %+v became %+v", table, i, s, t)
			continue
		}
		if s.value != t.value {
			by := t.value - s.value
			moved := int(s.shndx) < len(a.sects) && int(t.shndx) < len(b.sects) && s.shndx != 0 &&
				b.sects[t.shndx].addr-a.sects[s.shndx].addr == by
			isDynamic := s.name == "_DYNAMIC" && b.dynAt.lo-a.dynAt.lo == by
			if !moved && !isDynamic {
				c.bad("symbols", "%s: symbol %d %s was at %#x and is at %#x", table, i, s.name, s.value, t.value)
				continue
			}
			if table == ".dynsym" && !isDynamic && s.info&0xf != 3 {
				c.bad("symbols", ".dynsym: %s moved from %#x to %#x; code may have its address", s.name, s.value, t.value)
			}
		}
		if s.nameAt != t.nameAt && table == ".dynsym" {
			c.remark("symbols", "the name of %s is elsewhere in the string table", s.name)
		}
	}
	// What the sections' move asks of the symbols in them.
	for i, t := range y {
		s := x[i]
		if s.shndx == 0 || int(s.shndx) >= len(a.sects) || int(t.shndx) >= len(b.sects) || s.info&0xf == 6 ||
			len(c.gone) > 0 {
			continue
		}
		old, now := a.sects[s.shndx], b.sects[t.shndx]
		if old.addr != now.addr && s.value == t.value && of(old.addr, max(old.size, 1)).has(s.value) {
			c.bad("symbols", "%s: symbol %d %s stays at %#x, and its section %s moved", table, i, s.name, s.value, old.name)
		}
	}
}

// lookups finds symbols by both hash tables, before and after.
func (c *comparison) lookups() {
	symbols, _, err := c.a.dynSymbols()
	if err != nil || len(symbols) == 0 {
		return
	}
	const sample = 4096
	step := max(1, len(symbols)/sample)
	find := func(f *File) (gnu, sysv func(string) uint64) {
		at, size := f.strings()
		names, ok := f.memory(at, size)
		if !ok {
			return nil, nil
		}
		if g, ok := f.gnuHash(); ok {
			gnu = func(n string) uint64 { return f.lookUpGNU(g, names, n) }
		}
		if h, ok := f.one(dtHash); ok {
			sysv = func(n string) uint64 { return f.lookUpSysV(h, names, n) }
		}
		return gnu, sysv
	}
	g, s := find(c.a)
	g2, s2 := find(c.b)
	if (g == nil) != (g2 == nil) || (s == nil) != (s2 == nil) {
		c.bad("look-up", "a hash table is gone or new")
		return
	}
	for i := 0; i < len(symbols); i += step {
		n := symbols[i].name
		if n == "" {
			continue
		}
		if g != nil {
			if x, y := g(n), g2(n); x != y {
				c.bad("look-up", "DT_GNU_HASH finds %s as symbol %d, and found %d", n, y, x)
			}
		}
		if s != nil {
			if x, y := s(n), s2(n); x != y {
				c.bad("look-up", "DT_HASH finds %s as symbol %d, and found %d", n, y, x)
			}
		}
	}
}

// versions compares what is defined, needed and assigned.
func (c *comparison) versions() {
	a, b := c.a, c.b
	x, _, ok := a.needed()
	y, _, ok2 := b.needed()
	if ok && !ok2 {
		c.bad("versions", "DT_VERNEED cannot be read any more")
	}
	for i := range x {
		if n := c.want.Renamed[x[i].file]; n != "" {
			x[i].file = n
		}
	}
	if !slices.EqualFunc(x, y, version.same) {
		c.bad("versions", "%d versions needed became %d, or other ones", len(x), len(y))
	}
	x, _, ok = a.defined()
	y, _, ok2 = b.defined()
	if ok && !ok2 || !slices.EqualFunc(x, y, version.same) {
		c.bad("versions", "%d versions defined became %d, or other ones", len(x), len(y))
	}
	at, ok := a.one(dtVersym)
	now, ok2 := b.one(dtVersym)
	if ok != ok2 {
		c.bad("versions", "DT_VERSYM is gone or new")
	}
	if !ok || !ok2 {
		return
	}
	symbols, _, err := a.dynSymbols()
	if err != nil {
		return
	}
	old, ok := a.memory(at, 2*uint64(len(symbols)))
	cur, ok2 := b.memory(now, 2*uint64(len(symbols)))
	if !ok {
		return
	}
	if !ok2 {
		c.bad("versions", "DT_VERSYM is in no segment")
		return
	}
	for i, s := range symbols {
		x, y := a.order.Uint16(old[2*i:]), b.order.Uint16(cur[2*i:])
		if slices.Contains(c.want.Cleared, s.name) {
			if x > 1 && y != 1 {
				c.bad("versions", "%s still has version %d", s.name, y)
			}
			continue
		}
		if x != y {
			c.bad("versions", "%s had version %d and has %d", s.name, x, y)
		}
	}
}

// relocations compares them all, in order.
func (c *comparison) relocations() {
	x, y := c.a.relocations(), c.b.relocations()
	if !slices.Equal(x, y) {
		c.bad("relocations", "%d became %d, or other ones", len(x), len(y))
	}
}

// layout looks at the segments and sections after the edit: what the kernel would not map, or map over something else.
func (c *comparison) layout() {
	a, b := c.a, c.b
	size := uint64(len(b.data))
	was := map[uint64]segment{}
	for _, p := range a.loads() {
		was[p.vaddr] = p
	}
	loads := b.loads()
	for i, p := range loads {
		old, known := was[p.vaddr]
		if p.off+p.filesz > size && !(known && old.off+old.filesz > uint64(len(a.data))) {
			c.bad("layout", "segment at %#x ends at offset %#x of %#x", p.vaddr, p.off+p.filesz, size)
		}
		if known && old == p {
			continue
		}
		page := max(p.align, 4096)
		if p.align > 0 && (p.vaddr-p.off)%page != 0 && !(known && (old.vaddr-old.off)%page != 0) {
			c.bad("layout", "segment at %#x is not congruent with its offset %#x modulo %#x", p.vaddr, p.off, page)
		}
		if !known && p.filesz != p.memsz {
			c.bad("layout", "the new segment has %d bytes in the file and %d in memory", p.filesz, p.memsz)
		}
		if !known && p.flags&flagX != 0 {
			c.bad("layout", "the new segment is executable")
		}
		// No page is shared with another segment that was not shared before.
		pages := func(q segment) span { return span{q.vaddr / page * page, (q.vaddr + q.memsz + page - 1) / page * page} }
		for j, q := range loads {
			if i == j || !pages(p).overlaps(pages(q)) {
				continue
			}
			if o, ok := was[q.vaddr]; ok && known && pages(old).overlaps(pages(o)) &&
				!of(p.vaddr, p.memsz).overlaps(of(q.vaddr, q.memsz)) {
				continue
			}
			c.bad("layout", "the segments at %v and %v share a page of %#x bytes", of(p.vaddr, p.memsz),
				of(q.vaddr, q.memsz), page)
		}
	}
	if !b.wide {
		for _, p := range loads {
			if p.vaddr+p.memsz > 1<<32 {
				c.bad("layout", "segment at %#x passes the address space", p.vaddr)
			}
		}
	}
	// PT_DYNAMIC's memory is writable where the loader writes to it, as before.
	flags := func(f *File) uint32 {
		for _, p := range f.loads() {
			if of(p.vaddr, p.memsz).contains(f.dynAt) {
				return p.flags
			}
		}
		return 0
	}
	if x, y := flags(a), flags(b); x != y && y&flagW == 0 || y == 0 && x != 0 {
		c.bad("layout", ".dynamic was in a segment with flags %#x and is in one with %#x", x, y)
	}
	// Sections in the file do not overlap each other, nor the headers, if they did not.
	overlaps := func(f *File) map[[2]string]bool {
		type piece struct {
			span
			name string
		}
		pieces := []piece{{f.phdrTable(), "program headers"}, {of(0, uint64(f.head.ehsize)), "ELF header"},
			{of(f.head.shoff, f.head.shnum*uint64(f.head.shentsize)), "section headers"}}
		for i, s := range f.sects {
			if s.kind != shtNobits && s.kind != shtNull && s.size > 0 {
				pieces = append(pieces, piece{of(s.off, s.size), fmt.Sprint(i, " ", s.name)})
			}
		}
		slices.SortStableFunc(pieces, func(x, y piece) int { return cmpUint(x.lo, y.lo) })
		out := map[[2]string]bool{}
		for i := range pieces {
			for j := i + 1; j < len(pieces) && pieces[j].lo < pieces[i].hi; j++ {
				if pieces[i].overlaps(pieces[j].span) {
					out[[2]string{pieces[i].name, pieces[j].name}] = true
				}
			}
		}
		return out
	}
	before := overlaps(a)
	for pair := range overlaps(b) {
		if !before[pair] && !before[[2]string{pair[1], pair[0]}] {
			c.bad("layout", "%s and %s overlap in the file", pair[0], pair[1])
		}
	}
}

// used are the ranges of the file that a header names.
func (f *File) used() (out []span) {
	out = append(out, of(0, uint64(f.head.ehsize)), f.phdrTable(), of(f.head.shoff, f.head.shnum*uint64(f.head.shentsize)))
	for _, p := range f.segs {
		if p.kind != ptNull {
			out = append(out, of(p.off, p.filesz))
		}
	}
	for _, s := range f.sects {
		if s.kind != shtNobits && s.kind != shtNull {
			out = append(out, of(s.off, s.size))
		}
	}
	return slices.DeleteFunc(out, func(s span) bool { return s.hi <= s.lo })
}

// file compares what is in the file and in no segment, section or header: what somebody else put there, and what was
// appended, which is found from its old offset and from the end.
func (c *comparison) file() {
	a, b := c.a, c.b
	free := without([]span{{0, uint64(len(a.data))}}, a.used()...)
	end := uint64(0)
	for _, s := range a.used() {
		end = max(end, s.hi)
	}
	for _, s := range free {
		old := a.data[s.lo:s.hi]
		for len(old) > 0 && old[0] == 0 { // zeros alone are not data
			old, s.lo = old[1:], s.lo+1
		}
		if len(old) == 0 {
			continue
		}
		if s.hi > uint64(len(b.data)) || !bytes.Equal(bytes.TrimRight(old, "\x00"),
			b.data[s.lo:][:len(bytes.TrimRight(old, "\x00"))]) {
			if s.lo < end && len(bytes.Trim(old, "XZ\x00")) == 0 {
				continue // what patchelf fills with
			}
			c.bad("loose bytes", "%d bytes at offset %#x that no header names are not there any more", s.hi-s.lo, s.lo)
			continue
		}
		if s.hi == uint64(len(a.data)) && s.lo >= end && !bytes.HasSuffix(b.data, a.data[s.lo:]) {
			c.bad("appended data", "%d bytes after the image are not at the end any more", s.hi-s.lo)
		}
	}
	if len(b.data) < len(a.data) {
		c.bad("size", "the file shrank from %d to %d bytes", len(a.data), len(b.data))
	}
	// What the edit is about, what moved, the section headers, those that are there while it is under way, appended data,
	// and a page explain the growth.
	_, strs := b.strings()
	most := 4096 + strs + 2*b.head.shnum*uint64(b.head.shentsize) + uint64(len(a.data)) - min(end, uint64(len(a.data)))
	for _, p := range c.left {
		most += p.hi - p.lo
	}
	for i, s := range a.sects {
		if i < len(b.sects) && s.kind != shtNobits && s.off != b.sects[i].off {
			most += s.size
		}
	}
	if tail := uint64(len(a.data)) - min(end, uint64(len(a.data))); tail > 0 {
		most += 2 * tail
	}
	for _, p := range a.loads() {
		for _, q := range b.loads() {
			if p.vaddr == q.vaddr && c.relocated(p, q) {
				most += p.memsz + max(p.align, 4096)
			}
		}
	}
	if grown := len(b.data) - len(a.data); grown > int(most) {
		c.bad("size", "the file grew by %d bytes, and what moved explains %d", grown, most)
	}
}

// scrubbed makes sure that nothing of a removed run path is left in the file: Nix looks for store paths byte by byte.
func (c *comparison) scrubbed() {
	a, b := c.a, c.b
	var texts []string
	kept := strings.Join(append(append(b.names(dtRunpath), b.names(dtRpath)...),
		append(b.names(dtNeeded), b.names(dtSoname)...)...), "\x00")
	at, size := a.strings()
	table, ok := a.memory(at, size)
	if ok && c.live != nil && c.exact { // else symbols that cannot be counted may share the bytes
		for off := range c.retired {
			s, ok := a.str(off)
			if !ok || off >= uint64(len(c.live)) {
				continue
			}
			// From the first byte on that another string shares, it stays.
			n := 0
			for n < len(s) && !c.live[off+uint64(n)] {
				n++
			}
			_ = table
			texts = append(texts, strings.Split(s[:n], ":")...)
		}
	}
	if c.want.Interpreter != nil && c.exact {
		symbols, _, _ := a.dynSymbols()
		for _, p := range a.ofKind(ptInterp) {
			named := slices.ContainsFunc(symbols, func(s symbol) bool { return s.value == p.vaddr }) // code may read it
			if raw, ok := a.rawAt(p); ok && !named {
				texts = append(texts, string(bytes.TrimRight(raw, "\x00")))
				kept += *c.want.Interpreter
			}
		}
	}
	texts = slices.DeleteFunc(texts, func(s string) bool { return len(s) < 8 || strings.Contains(kept, s) })
	for s, at := range find(b.data, texts) {
		if n := bytes.Count(a.data, []byte(s)); n == 1 { // else it is elsewhere in the file, too
			c.bad("leftover", "%.100q is still in the file, at offset %#x", s, at)
		}
	}
	gone := slices.DeleteFunc(slices.Clone(c.want.Gone), func(s string) bool {
		return len(s) < 8 || strings.Contains(kept, s)
	})
	for s, at := range find(b.data, gone) {
		if !bytes.Contains(a.data, []byte(s)) {
			c.bad("leftover", "%.100q is still in the file, at offset %#x", s, at)
		}
	}
}

// find returns those of the texts that are in data, and where first. It goes through data once for all that begin
// alike.
func find(data []byte, texts []string) map[string]int {
	out := map[string]int{}
	alike := map[string][]string{}
	for _, s := range texts {
		alike[s[:8]] = append(alike[s[:8]], s)
	}
	for begin, all := range alike {
		for at := 0; ; at++ {
			i := bytes.Index(data[at:], []byte(begin))
			if i < 0 {
				break
			}
			at += i
			for _, s := range all {
				if _, ok := out[s]; !ok && bytes.HasPrefix(data[at:], []byte(s)) {
					out[s] = at
				}
			}
		}
	}
	return out
}
