package judge

import (
	"bytes"
	"fmt"
	"slices"
)

const (
	dtNeeded, dtPltRelSz, dtHash, dtStrtab, dtSymtab = 1, 2, 4, 5, 6
	dtRela, dtRelaSz, dtStrsz, dtSoname, dtRpath     = 7, 8, 10, 14, 15
	dtRel, dtRelSz, dtPltRel, dtDebug, dtJmpRel      = 17, 18, 20, 21, 23
	dtRunpath, dtRelrSz, dtRelr                      = 29, 35, 36
	dtGnuHash, dtVersym                              = 0x6ffffef5, 0x6ffffff0
	dtFlags1                                         = 0x6ffffffb
	dtVerdef, dtVerdefNum, dtVerneed, dtVerneedNum   = 0x6ffffffc, 0x6ffffffd, 0x6ffffffe, 0x6fffffff
	dtConfig, dtDepAudit, dtAudit                    = 0x6ffffefa, 0x6ffffefb, 0x6ffffefc
	dtAuxiliary, dtUsed, dtFilter                    = 0x7ffffffd, 0x7ffffffe, 0x7fffffff
	dtMipsIversion, dtMipsSymtabno                   = 0x70000004, 0x70000011
	dtMipsOptions, dtMipsRldMapRel, dtMipsXhash      = 0x70000029, 0x70000035, 0x70000036

	flag1NoDefLib = 0x800

	machine386, machineMIPS, machinePPC, machinePPC64, machineS390, machineARM = 3, 8, 20, 21, 22, 40
	machineAMD64, machineARM64, machineRISCV, machineLoong, machineAlpha       = 62, 183, 243, 258, 0x9026
)

// stringTags are the entries whose value is an offset in the string table.
func stringTags(machine uint16) []uint64 {
	tags := []uint64{dtNeeded, dtSoname, dtRpath, dtRunpath, dtConfig, dtDepAudit, dtAudit, dtAuxiliary, dtUsed, dtFilter}
	if machine == machineMIPS {
		tags = append(tags, dtMipsIversion)
	}
	return tags
}

// A symbol is one of .dynsym or .symtab.
type symbol struct {
	name        string
	nameAt      uint32
	info, other byte
	shndx       uint16
	value, size uint64
}

func (f *File) symSize() uint64 {
	if f.wide {
		return 24
	}
	return 16
}

func (f *File) symbol(b []byte) (s symbol) {
	c := cursor{f, b}
	s.nameAt = c.word()
	if !f.wide {
		s.value, s.size = c.addr(), c.addr()
	}
	s.info, s.other, c.b = c.b[0], c.b[1], c.b[2:]
	s.shndx = c.half()
	if f.wide {
		s.value, s.size = c.addr(), c.addr()
	}
	return s
}

// symbolCount tells how many dynamic symbols there are. The loader does not know;
// it follows from a hash table, a section header or, on MIPS, an entry. Where only
// relocations tell, there may be more than they use: exact is then false.
func (f *File) symbolCount() (n uint64, exact bool) {
	addr, ok := f.one(dtSymtab)
	if !ok {
		return 0, true
	}
	if s, ok := f.sectionAt(shtDynsym, addr); ok {
		n, exact = s.size/f.symSize(), true
	}
	if at, ok := f.one(dtHash); ok {
		if b, ok := f.memory(at, 2*f.hashWord()); ok {
			c := cursor{f, b[f.hashWord():]}
			n, exact = max(n, c.hash()), true
		}
	}
	if g, ok := f.gnuHash(); ok && g.last > 0 {
		n, exact = max(n, g.last+1), true
	}
	if v, ok := f.one(dtMipsSymtabno); ok && f.head.machine == machineMIPS {
		n, exact = max(n, v), true
	}
	for _, r := range f.relocations() {
		n = max(n, r.sym+1)
	}
	return n, exact
}

// hashWord is the size of a DT_HASH word: four bytes, but eight on Alpha and s390x.
func (f *File) hashWord() uint64 {
	if f.wide && (f.head.machine == machineS390 || f.head.machine == machineAlpha) {
		return 8
	}
	return 4
}

func (c *cursor) hash() uint64 {
	if c.f.hashWord() == 8 {
		return c.addr()
	}
	return uint64(c.word())
}

// dynSymbols reads the dynamic symbols with their names.
func (f *File) dynSymbols() (out []symbol, exact bool, err error) {
	n, exact := f.symbolCount()
	if n == 0 {
		return nil, exact, nil
	}
	at, _ := f.one(dtSymtab)
	b, ok := f.memory(at, n*f.symSize())
	if !ok {
		return nil, exact, fmt.Errorf("%d dynamic symbols at %#x are in no segment", n, at)
	}
	addr, size := f.strings()
	table, ok := f.memory(addr, size)
	if !ok {
		return nil, exact, fmt.Errorf("the dynamic string table %v is in no segment", of(addr, size))
	}
	return f.symbols(b, table), exact, nil
}

func (f *File) symbols(b, names []byte) []symbol {
	out := make([]symbol, 0, uint64(len(b))/f.symSize())
	for ; uint64(len(b)) >= f.symSize(); b = b[f.symSize():] {
		s := f.symbol(b)
		s.name = stringIn(names, uint64(s.nameAt))
		out = append(out, s)
	}
	return out
}

func stringIn(table []byte, off uint64) string {
	if off >= uint64(len(table)) {
		return fmt.Sprintf("(name at %#x)", off)
	}
	b := table[off:]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return string(b[:i])
	}
	return fmt.Sprintf("(name at %#x without an end)", off)
}

// A gnuTable is a DT_GNU_HASH table.
type gnuTable struct {
	at                       uint64
	buckets, bias, words     uint64
	shift                    uint32
	bucketsAt, chainsAt, end uint64
	last                     uint64 // index of the last symbol in it; 0 where it is empty
}

func (f *File) gnuHash() (g gnuTable, ok bool) {
	at, ok := f.one(dtGnuHash)
	if !ok {
		return g, false
	}
	b, ok := f.memory(at, 16)
	if !ok {
		return g, false
	}
	c := cursor{f, b}
	g.at, g.buckets, g.bias, g.words, g.shift = at, uint64(c.word()), uint64(c.word()), uint64(c.word()), c.word()
	g.bucketsAt = at + 16 + g.words*f.word()
	g.chainsAt = g.bucketsAt + 4*g.buckets
	g.end = g.chainsAt
	if g.buckets > 1<<28 {
		return g, false
	}
	b, ok = f.memory(g.bucketsAt, 4*g.buckets)
	if !ok {
		return g, false
	}
	for c := (cursor{f, b}); len(c.b) > 0; {
		g.last = max(g.last, uint64(c.word()))
	}
	if g.last < g.bias {
		g.last = 0
		return g, true
	}
	for {
		b, ok := f.memory(g.chainsAt+4*(g.last-g.bias), 4)
		if !ok {
			return g, false
		}
		if f.order.Uint32(b)&1 != 0 {
			break
		}
		g.last++
	}
	g.end = g.chainsAt + 4*(g.last-g.bias+1)
	return g, true
}

// lookUpGNU finds a name as glibc's do_lookup_x does. It returns the index, 0 where it is not found.
func (f *File) lookUpGNU(g gnuTable, names []byte, name string) uint64 {
	h := uint32(5381)
	for i := range len(name) {
		h = h*33 + uint32(name[i])
	}
	if g.buckets == 0 || g.words == 0 {
		return 0
	}
	bits := 8 * f.word()
	b, ok := f.memory(g.at+16+uint64(h)/bits%g.words*f.word(), f.word())
	if !ok {
		return 0
	}
	c := cursor{f, b}
	filter := c.addr()
	if filter>>(uint64(h)%bits)&1 == 0 || filter>>(uint64(h>>g.shift)%bits)&1 == 0 {
		return 0
	}
	b, ok = f.memory(g.bucketsAt+4*(uint64(h)%g.buckets), 4)
	if !ok {
		return 0
	}
	table, _ := f.one(dtSymtab)
	for i := uint64(f.order.Uint32(b)); i >= g.bias && i > 0; i++ {
		b, ok := f.memory(g.chainsAt+4*(i-g.bias), 4)
		if !ok {
			return 0
		}
		v := f.order.Uint32(b)
		if v|1 == h|1 {
			if s, ok := f.memory(table+i*f.symSize(), f.symSize()); ok && stringIn(names, uint64(f.symbol(s).nameAt)) == name {
				return i
			}
		}
		if v&1 != 0 {
			return 0
		}
	}
	return 0
}

// lookUpSysV finds a name by DT_HASH (gABI, "Hash Table").
func (f *File) lookUpSysV(at uint64, names []byte, name string) uint64 {
	h := uint32(0)
	for i := range len(name) {
		h = h<<4 + uint32(name[i])
		g := h & 0xf0000000
		h ^= g >> 24
		h &^= g
	}
	w := f.hashWord()
	word := func(i uint64) uint64 {
		b, ok := f.memory(at+i*w, w)
		if !ok {
			return 0
		}
		c := cursor{f, b}
		return c.hash()
	}
	buckets, chains := word(0), word(1)
	if buckets == 0 {
		return 0
	}
	table, _ := f.one(dtSymtab)
	steps := uint64(0)
	for i := word(2 + uint64(h)%buckets); i != 0 && steps <= chains; i = word(2 + buckets + i) {
		if s, ok := f.memory(table+i*f.symSize(), f.symSize()); ok && stringIn(names, uint64(f.symbol(s).nameAt)) == name {
			return i
		}
		steps++
	}
	return 0
}

// A relocation is one of DT_REL, DT_RELA, DT_JMPREL or DT_RELR, the last ones
// unpacked to the addresses that they relocate.
type relocation struct {
	offset, info, sym uint64
	addend            uint64
	kind              uint32
	relr, hasAddend   bool
}

// relocations reads all of them, in the order of the tables.
func (f *File) relocations() (out []relocation) {
	read := func(at, size uint64, addends bool) {
		b, ok := f.memory(at, size)
		if !ok {
			return
		}
		n := 2 * f.word()
		if addends {
			n += f.word()
		}
		for ; uint64(len(b)) >= n; b = b[n:] {
			c := cursor{f, b}
			r := relocation{offset: c.addr(), info: c.addr(), hasAddend: addends}
			switch {
			case !f.wide:
				r.sym, r.kind = r.info>>8, uint32(r.info&0xff)
			case f.head.machine == machineMIPS: // r_sym, r_ssym, r_type3, r_type2, r_type: bytes, not one number
				raw := cursor{f, b[8:]}
				r.sym, r.kind = uint64(raw.word()), uint32(b[15])
			default:
				r.sym, r.kind = r.info>>32, uint32(r.info)
			}
			if addends {
				r.addend = c.addr()
			}
			out = append(out, r)
		}
	}
	rela, _ := f.one(dtRela)
	relaSize, _ := f.one(dtRelaSz)
	read(rela, relaSize, true)
	rel, _ := f.one(dtRel)
	relSize, _ := f.one(dtRelSz)
	read(rel, relSize, false)
	plt, _ := f.one(dtJmpRel)
	pltSize, _ := f.one(dtPltRelSz)
	kind, _ := f.one(dtPltRel)
	read(plt, pltSize, kind == dtRela)
	relr, _ := f.one(dtRelr)
	relrSize, _ := f.one(dtRelrSz)
	if b, ok := f.memory(relr, relrSize); ok && relrSize > 0 {
		where := uint64(0)
		for c := (cursor{f, b}); uint64(len(c.b)) >= f.word(); {
			v := c.addr()
			if v&1 == 0 {
				out = append(out, relocation{offset: v, relr: true})
				where = v + f.word()
				continue
			}
			for i := uint64(0); v>>(i+1) != 0; i++ {
				if v>>(i+1)&1 != 0 {
					out = append(out, relocation{offset: where + i*f.word(), relr: true})
				}
			}
			where += (8*f.word() - 1) * f.word()
		}
	}
	return out
}

// relative are the relocations of type R_*_RELATIVE and R_*_IRELATIVE, by machine:
// what they store is an address of the file itself.
var relative = map[uint16][]uint32{
	machineAMD64: {8, 37}, machine386: {8, 42}, machineARM: {23, 160}, machineARM64: {1027, 1032},
	machinePPC: {22, 248}, machinePPC64: {22, 248}, machineS390: {12, 61}, machineRISCV: {3, 58}, machineLoong: {3, 12},
}

// pointers returns the addresses of the file itself that its relocations store, and where.
func (f *File) pointers() map[uint64]uint64 {
	out := map[uint64]uint64{}
	for _, r := range f.relocations() {
		isRelative := r.relr || slices.Contains(relative[f.head.machine], r.kind) ||
			f.head.machine == machineMIPS && r.kind == 3 && r.sym == 0
		if !isRelative {
			continue
		}
		target := r.addend
		if !r.hasAddend {
			b, ok := f.memory(r.offset, f.word())
			if !ok {
				continue
			}
			c := cursor{f, b}
			target = c.addr()
		}
		out[target] = r.offset
	}
	return out
}

// A version is one that is defined or needed, by meaning.
type version struct {
	file, name  string
	hash        uint32
	flags, ndx  uint16
	parents     string
	at, auxAt   uint64 // addresses of the records
	fileAt      uint64 // offset in the string table
	nameAt      uint64
	parentNames []uint64
}

// same compares what the loader looks at.
func (v version) same(w version) bool {
	return v.file == w.file && v.name == w.name && v.hash == w.hash && v.flags == w.flags && v.ndx == w.ndx &&
		v.parents == w.parents
}

// needed reads DT_VERNEED; it returns the extent of the records, too.
func (f *File) needed() (out []version, where span, ok bool) {
	at, ok := f.one(dtVerneed)
	if !ok {
		return nil, span{}, true
	}
	where = span{at, at}
	for range 1 << 16 {
		b, ok := f.memory(at, 16)
		if !ok {
			return out, where, false
		}
		c := cursor{f, b}
		_, count, file, aux, next := c.half(), c.half(), c.word(), c.word(), c.word()
		where.hi = max(where.hi, at+16)
		name, _ := f.str(uint64(file))
		auxAt := at + uint64(aux)
		for range count {
			b, ok := f.memory(auxAt, 16)
			if !ok {
				return out, where, false
			}
			c := cursor{f, b}
			v := version{file: name, fileAt: uint64(file), at: at, auxAt: auxAt}
			v.hash, v.flags, v.ndx = c.word(), c.half(), c.half()
			v.nameAt = uint64(c.word())
			v.name, _ = f.str(v.nameAt)
			out = append(out, v)
			where.hi = max(where.hi, auxAt+16)
			auxAt += uint64(c.word())
		}
		if next == 0 {
			return out, where, true
		}
		at += uint64(next)
	}
	return out, where, false
}

// defined reads DT_VERDEF.
func (f *File) defined() (out []version, where span, ok bool) {
	at, ok := f.one(dtVerdef)
	if !ok {
		return nil, span{}, true
	}
	where = span{at, at}
	for range 1 << 16 {
		b, ok := f.memory(at, 20)
		if !ok {
			return out, where, false
		}
		c := cursor{f, b}
		v := version{at: at}
		_, v.flags, v.ndx = c.half(), c.half(), c.half()
		count := c.half()
		v.hash = c.word()
		aux, next := c.word(), c.word()
		where.hi = max(where.hi, at+20)
		auxAt := at + uint64(aux)
		for i := range count {
			b, ok := f.memory(auxAt, 8)
			if !ok {
				return out, where, false
			}
			c := cursor{f, b}
			nameAt := uint64(c.word())
			name, _ := f.str(nameAt)
			v.parentNames = append(v.parentNames, nameAt)
			if i == 0 {
				v.name, v.nameAt = name, nameAt
			} else {
				v.parents += name + "\x00"
			}
			where.hi = max(where.hi, auxAt+8)
			auxAt += uint64(c.word())
		}
		out = append(out, v)
		if next == 0 {
			return out, where, true
		}
		at += uint64(next)
	}
	return out, where, false
}

// A note is one record of a PT_NOTE segment.
type note struct {
	owner string
	kind  uint32
	desc  string
	at    span // addresses
}

func (f *File) notes() (out []note) {
	for _, p := range f.segs {
		if p.kind != ptNote || p.off+p.filesz > uint64(len(f.data)) {
			continue
		}
		align := uint64(4)
		if p.align == 8 {
			align = 8
		}
		up := func(n uint64) uint64 { return (n + align - 1) / align * align }
		b, at := f.data[p.off:p.off+p.filesz], p.vaddr
		for len(b) >= 12 {
			c := cursor{f, b}
			nameSize, descSize, kind := uint64(c.word()), uint64(c.word()), c.word()
			from := up(12 + nameSize)
			end := from + descSize
			if end > uint64(len(b)) || nameSize > uint64(len(b)) {
				break
			}
			out = append(out, note{string(b[12 : 12+nameSize]), kind, string(b[from:end]), of(at, end)})
			step := min(up(end), uint64(len(b)))
			b, at = b[step:], at+step
		}
	}
	return out
}
