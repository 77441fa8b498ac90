package elfimage

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"unsafe"
)

// A Linkage is what the loader binds symbols by: the symbols that an object looks up in others, and those that it
// defines for them. It holds the tables as they are in the file, and looks a name up in the hash table that the
// loader uses. It is safe for concurrent use.
type Linkage struct {
	// References are the symbols that relocations refer to and that the object does not define, and those of copy
	// relocations, which never bind to the object itself. Each kind is there once, in the order of the relocations.
	References []Reference
	// Versioned: there is a DT_VERSYM.
	Versioned bool
	// Symbols is the number of dynamic symbols.
	Symbols uint64

	im       layout
	symbols  []byte
	names    []byte
	versym   []byte
	versions []*Version // by index in DT_VERSYM
	hash     hashTable
}

// hashTable is DT_GNU_HASH (binutils, "GNU Hash ELF Sections") or DT_HASH (gABI, "Hash Table").
type hashTable struct {
	gnu            bool
	first, shift   uint32 // of DT_GNU_HASH: the first symbol that is in it; see the filter
	bloom          []byte
	buckets, chain []byte
	size           uint64 // of a word of buckets and chain
}

// layout is how an image's tables are read.
type layout struct {
	long   bool
	little bool
	order  binary.ByteOrder
}

// A Reference is a symbol that the loader looks up for a relocation.
type Reference struct {
	Name    string
	Version *Version // nil for none
	Hidden  bool     // bit 15 of its DT_VERSYM
	Weak    bool     // it may stay unbound
	Copy    bool     // a copy relocation: never bound to the object itself
	PLT     bool     // a call through the PLT: never bound to an undefined symbol that has a value
	// Lazy: glibc looks it up at its first call, unless it was told to bind at once (LD_BIND_NOW, RTLD_NOW). All
	// others are looked up before any code of the object runs: data, calls through the GOT alone, thread-local
	// storage, and everything if DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW says so.
	Lazy bool

	hash uint32 // of DT_GNU_HASH
}

// bindRelocations returns the types of relocations that the loader treats as a copy and as a
// jump slot, for each machine (the psABIs).
func bindRelocations(m elf.Machine) (copyType, slotType uint64, known bool) {
	switch m {
	case elf.EM_X86_64, elf.EM_386:
		return 5, 7, true
	case elf.EM_AARCH64:
		return 1024, 1026, true
	case elf.EM_ARM:
		return 20, 22, true
	case elf.EM_PPC, elf.EM_PPC64:
		return 19, 21, true
	case elf.EM_RISCV, elf.EM_LOONGARCH:
		return 4, 5, true
	case elf.EM_S390:
		return 9, 11, true
	}
	return 0, 0, false
}

// Bounds of what a Linkage holds in memory: symbols, bytes of their names, and bytes
// of relocations that it reads. The largest libraries that are shipped, TensorFlow's and
// PyTorch's, have some hundred thousand symbols; a file with holes may claim any number.
const (
	maxSymbols     = 1 << 19
	maxSymbolNames = 64 << 20
	maxRelocations = 1 << 30
	maxHash        = 16 << 20
)

// Linkage reads the dynamic symbols and the relocations that refer to them. It knows glibc's machines except MIPS,
// whose loader binds by the GOT without relocations. known is false for other machines, and if the number of symbols
// cannot be determined.
func (im *Image) Linkage() (l *Linkage, known bool, err error) {
	copyType, slotType, ok := bindRelocations(im.Machine)
	if !ok {
		return nil, false, nil
	}
	off, n, known := im.DynSymbols()
	if !known && im.unread > 0 {
		im.ReadSections()
		off, n, known = im.DynSymbols()
	}
	if !known {
		return nil, false, nil
	}
	if n > maxSymbols || im.StrSize > maxSymbolNames {
		return nil, true,
			Malformed(off, "%d dynamic symbols with %d bytes of names: more than %d or %d bytes are not looked at", n,
				im.StrSize, maxSymbols, maxSymbolNames)
	}
	l = &Linkage{Symbols: n, im: layout{im.Is64(), im.Data == elf.ELFDATA2LSB, im.Order}}
	if err := im.linkTables(l, off, n); err != nil {
		return nil, true, err
	}
	if err := im.indexVersions(l); err != nil {
		return nil, true, err
	}
	return l, true, im.references(l, copyType, slotType)
}

// linkTables reads the tables by which symbols are looked up, all at once if they are side by side, as in most files.
func (im *Image) linkTables(l *Linkage, symbols, n uint64) error {
	type table struct {
		off, size uint64
		to        *[]byte
	}
	tables := []table{{symbols, n * im.SymSize(), &l.symbols}, {im.StrOff, im.StrSize, &l.names}}
	add := func(tag elf.DynTag, size uint64, to *[]byte) error {
		d, _ := im.Dyn(tag)
		off, ok := im.FileOffset(d.Val, size)
		if !ok {
			return Malformed(d.Off, "%v of %d bytes at address %#x is in no PT_LOAD", tag, size, d.Val)
		}
		tables = append(tables, table{off, size, to})
		return nil
	}
	if _, ok := im.Dyn(elf.DT_VERSYM); ok && n > 0 {
		if err := add(elf.DT_VERSYM, 2*n, &l.versym); err != nil {
			return err
		}
		l.Versioned = true
	}
	var raw []byte
	tag, gnu := elf.DT_GNU_HASH, false
	if d, ok := im.Dyn(tag); ok { // which the loader prefers
		_, size, known := im.GNUHash(d.Val)
		if !known || size > maxHash {
			return Malformed(d.Off, "DT_GNU_HASH at address %#x has no end", d.Val)
		}
		if err := add(tag, size, &raw); err != nil {
			return err
		}
		gnu = true
	} else if d, ok := im.Dyn(elf.DT_HASH); ok {
		tag = elf.DT_HASH
		w := im.HashWord()
		head, ok := im.Memory(d.Val, 2*w)
		if !ok {
			return Malformed(d.Off, "DT_HASH at address %#x is in no PT_LOAD", d.Val)
		}
		buckets, chains := im.Uint(head, w), im.Uint(head[w:], w)
		if buckets > maxHash || chains > maxHash {
			return Malformed(d.Off, "DT_HASH has %d buckets and %d chains", buckets, chains)
		}
		if err := add(tag, (2+buckets+chains)*w, &raw); err != nil {
			return err
		}
	}
	first, end, sum := tables[0].off, uint64(0), uint64(0)
	for _, t := range tables {
		if t.size > im.size || t.off > im.size-t.size {
			return Malformed(t.off, "a table of %d bytes is outside the file", t.size)
		}
		if t.size > 0 {
			first, end, sum = min(first, t.off), max(end, t.off+t.size), sum+t.size
		}
	}
	var all []byte
	if end > first && end-first <= sum+sum/4+4096 {
		all = make([]byte, end-first)
		if err := ReadFull(im, all, first); err != nil {
			return err
		}
	}
	for _, t := range tables {
		if t.size == 0 {
			continue
		}
		if all != nil {
			*t.to = all[t.off-first:][:t.size:t.size]
			continue
		}
		*t.to = make([]byte, t.size)
		if err := ReadFull(im, *t.to, t.off); err != nil {
			return err
		}
	}
	if raw == nil {
		return nil
	}
	return l.readHash(raw, gnu, im.HashWord())
}

// indexVersions finds the version of each index in DT_VERSYM.
func (im *Image) indexVersions(l *Linkage) error {
	if !l.Versioned {
		return nil
	}
	all, _, err := im.definedVersions()
	if err != nil {
		return err
	}
	needed, err := im.neededVersions()
	if err != nil {
		return err
	}
	all = append(all, needed...)
	for i := range all {
		v := &all[i]
		if v.base {
			continue
		}
		if v.Name = l.text(v.name); v.Name == "" {
			continue
		}
		if v.library != 0 {
			v.Library = l.text(v.library)
		}
		at := int(v.index & 0x7fff)
		if at >= len(l.versions) {
			l.versions = append(l.versions, make([]*Version, at+1-len(l.versions))...)
		}
		l.versions[at] = v
	}
	return nil
}

// HasName reports whether one of the dynamic names begins with a prefix.
func (l *Linkage) HasName(prefix string) bool { return bytes.Contains(l.names, []byte("\x00"+prefix)) }

// text returns a string of the string table that is at most as long as a version's name may be, or "".
func (l *Linkage) text(at uint32) string {
	if uint64(at) >= uint64(len(l.names)) {
		return ""
	}
	b := l.names[at:min(uint64(at)+maxVersionName, uint64(len(l.names)))]
	if end := bytes.IndexByte(b, 0); end >= 0 {
		return unsafe.String(unsafe.SliceData(b), end) // names are not written to after this
	}
	return ""
}

// symbol is an entry of the dynamic symbol table.
type symbol struct {
	name        uint32
	info, other byte
	section     elf.SectionIndex
	value       uint64
}

func (l *Linkage) symbol(i uint32) (s symbol) {
	if l.im.long {
		b := l.symbols[24*uint64(i):][:24]
		if l.im.little { // most files; a call through the interface costs as much as the rest
			o := binary.LittleEndian
			return symbol{o.Uint32(b), b[4], b[5], elf.SectionIndex(o.Uint16(b[6:])), o.Uint64(b[8:])}
		}
		o := l.im.order
		return symbol{o.Uint32(b), b[4], b[5], elf.SectionIndex(o.Uint16(b[6:])), o.Uint64(b[8:])}
	}
	b, o := l.symbols[16*uint64(i):][:16], l.im.order
	return symbol{o.Uint32(b), b[12], b[13], elf.SectionIndex(o.Uint16(b[14:])), uint64(o.Uint32(b[4:]))}
}

// local reports whether a symbol is the object's own, so that the loader looks it up nowhere.
func (s symbol) local() bool {
	vis := elf.ST_VISIBILITY(s.other)
	return elf.ST_BIND(s.info) == elf.STB_LOCAL || vis != elf.STV_DEFAULT && vis != elf.STV_PROTECTED ||
		vis == elf.STV_PROTECTED && s.section != elf.SHN_UNDEF
}

// open reports whether others may bind to a symbol.
func (s symbol) open() bool {
	vis := elf.ST_VISIBILITY(s.other)
	if elf.ST_BIND(s.info) == elf.STB_LOCAL || vis == elf.STV_HIDDEN || vis == elf.STV_INTERNAL {
		return false
	}
	// Relocations of TLS never bind to an undefined symbol. Others do if it has a value, which is the address of the
	// program's PLT entry.
	switch t := elf.ST_TYPE(s.info); t {
	case elf.STT_TLS:
		return s.section != elf.SHN_UNDEF
	case elf.STT_NOTYPE, elf.STT_OBJECT, elf.STT_FUNC, elf.STT_COMMON, elf.STT_GNU_IFUNC:
		return s.value != 0 || s.section == elf.SHN_ABS
	}
	return false
}

// Address returns the address of a symbol that the object defines for others; 0 for none of that name.
func (l *Linkage) Address(name string) uint64 {
	for i := uint32(1); uint64(i) < l.Symbols; i++ {
		if s := l.symbol(i); s.open() && s.section != elf.SHN_UNDEF && l.text(s.name) == name {
			return s.value
		}
	}
	return 0
}

// Exports reports whether there is a symbol that others may bind to.
func (l *Linkage) Exports() bool {
	for i := uint32(1); uint64(i) < l.Symbols; i++ {
		if l.symbol(i).open() {
			return true
		}
	}
	return false
}

// Defines reports whether a reference of another object, or a copy relocation of this one, binds to a definition of
// this one (do_lookup_x and check_match of glibc elf/dl-lookup.c). musl compares no versions, and passes over those
// that are not the default. budget is reduced by the number of compared symbols, which are many in a malicious table;
// the answer is false once it is used up.
//
// glibc before 2.41 fails at an assertion instead if there is no DT_VERSYM and the reference has a version of this
// object.
func (l *Linkage) Defines(r *Reference, musl bool, budget *int) bool {
	h, others := &l.hash, 0
	if len(h.buckets) == 0 {
		return false
	}
	if !h.gnu {
		chains := min(l.Symbols, uint64(len(h.chain))/h.size)
		buckets := uint64(len(h.buckets)) / h.size
		for i := l.word(h.buckets, uint64(sysvHash(r.Name))%buckets, h.size); i != 0 && uint64(i) < chains &&
			*budget > 0; i = l.word(h.chain, uint64(i), h.size) {
			*budget--
			if l.takes(i, r, musl, &others) {
				return true
			}
		}
		return others == 1
	}
	bits := uint32(pick(l.im.long, 64, 32))
	// A word of the filter is as long as an address. The loader assumes that their number is a power of two.
	at := uint64(r.hash / bits & (uint32(len(h.bloom))*8/bits - 1) * (bits / 8))
	var word uint64
	if l.im.long && l.im.little {
		word = binary.LittleEndian.Uint64(h.bloom[at:])
	} else if l.im.long {
		word = l.im.order.Uint64(h.bloom[at:])
	} else {
		word = uint64(l.im.order.Uint32(h.bloom[at:]))
	}
	if word>>(r.hash%bits)&(word>>(r.hash>>h.shift%bits))&1 == 0 {
		return false
	}
	i := l.word(h.buckets, uint64(r.hash)%(uint64(len(h.buckets))/4), 4)
	if i < h.first {
		return false
	}
	for ; uint64(i) < l.Symbols && uint64(i-h.first) < uint64(len(h.chain))/4 && *budget > 0; i++ {
		*budget--
		v := l.word(h.chain, uint64(i-h.first), 4)
		if (v^r.hash)>>1 == 0 && l.takes(i, r, musl, &others) {
			return true
		}
		if v&1 != 0 {
			break
		}
	}
	return others == 1
}

// takes reports whether a reference binds to a symbol at once. others counts the versions to which it binds only if
// there is a single one.
func (l *Linkage) takes(i uint32, r *Reference, musl bool, others *int) bool {
	s := l.symbol(i)
	end := uint64(s.name) + uint64(len(r.Name))
	if end >= uint64(len(l.names)) || l.names[end] != 0 || string(l.names[s.name:end]) != r.Name || !s.open() ||
		r.PLT && s.section == elf.SHN_UNDEF {
		return false
	}
	if !l.Versioned {
		return true
	}
	index, hidden, version := l.version(i)
	switch {
	case musl:
		return !hidden
	case r.Version != nil:
		return version != nil && version.Hash == r.Version.Hash && version.Name == r.Version.Name ||
			version == nil && !hidden && !r.Hidden
	case index < 3:
		return true
	case !hidden:
		*others++
	}
	return false
}

// word returns word i, of size bytes, of a table of 32-bit numbers.
func (l *Linkage) word(b []byte, i, size uint64) uint32 {
	if l.im.little {
		return binary.LittleEndian.Uint32(b[i*size:])
	}
	return l.im.order.Uint32(b[i*size+size-4:])
}

// version returns what DT_VERSYM says of a symbol.
func (l *Linkage) version(i uint32) (index uint16, hidden bool, version *Version) {
	v := l.im.order.Uint16(l.versym[2*uint64(i):])
	if index = v & 0x7fff; int(index) < len(l.versions) {
		version = l.versions[index]
	}
	return index, v&0x8000 != 0, version
}

// references reads DT_RELA, DT_REL and DT_JMPREL. DT_RELR has no symbols, and neither have the first DT_RELACOUNT or
// DT_RELCOUNT relocations of a table.
func (im *Image) references(l *Linkage, copies, slots uint64) error {
	const (
		plain, copied, slot, lazy = 1, 2, 4, 8
		own                       = 16 // the object defines it
	)
	seen := make([]uint8, l.Symbols)
	w := im.WordSize()
	plt, _ := im.Dyn(elf.DT_PLTREL)
	flags, _ := im.Dyn(elf.DT_FLAGS)
	flags1, _ := im.Dyn(elf.DT_FLAGS_1)
	_, now := im.Dyn(elf.DT_BIND_NOW)
	now = now || elf.DynFlag(flags.Val)&elf.DF_BIND_NOW != 0 || elf.DynFlag1(flags1.Val)&elf.DF_1_NOW != 0
	// Names may overlap, because linkers merge a name that is another one's tail. A file whose names add up to much
	// more than its bytes is malicious.
	budget := 4*im.size + 1<<20
	var failed error
	take := func(i uint32, kind uint8) {
		s := l.symbol(i)
		if s.local() {
			return
		}
		if kind != copied && s.section != elf.SHN_UNDEF && s.open() {
			seen[i] |= own
			return
		}
		r := Reference{Weak: elf.ST_BIND(s.info) == elf.STB_WEAK, Copy: kind == copied, PLT: kind&slot != 0,
			Lazy: kind&lazy != 0}
		if uint64(s.name) >= uint64(len(l.names)) {
			failed = Malformed(im.StrOff, "a symbol's name is offset %#x of a string table of %d bytes", s.name, len(l.names))
			return
		}
		b := l.names[s.name:]
		end := bytes.IndexByte(b, 0)
		if end < 0 || uint64(end) > budget {
			failed = Malformed(im.StrOff+uint64(s.name), "a symbol's name has no end, or names are too long")
			return
		}
		budget -= uint64(end)
		r.Name = unsafe.String(unsafe.SliceData(b), end)
		r.hash = gnuHash(b[:end])
		if l.Versioned {
			_, r.Hidden, r.Version = l.version(i)
		}
		l.References = append(l.References, r)
	}
	for _, t := range []struct {
		at, size, relative elf.DynTag
		addend, calls      bool
	}{{elf.DT_RELA, elf.DT_RELASZ, elf.DT_RELACOUNT, true, false},
		{elf.DT_REL, elf.DT_RELSZ, elf.DT_RELCOUNT, false, false},
		{elf.DT_JMPREL, elf.DT_PLTRELSZ, 0, elf.DynTag(plt.Val) == elf.DT_RELA, true}} {
		at, ok := im.Dyn(t.at)
		bytes, sized := im.Dyn(t.size)
		if !ok || !sized || bytes.Val == 0 {
			continue
		}
		entry := 2 * w
		if t.addend {
			entry = 3 * w
		}
		off, ok := im.FileOffset(at.Val, bytes.Val)
		if bytes.Val > maxRelocations {
			return Malformed(bytes.Off, "%v is %d: more than %d bytes are not looked at", bytes.Tag, bytes.Val, maxRelocations)
		}
		if !ok {
			return Malformed(at.Off, "%v of %d bytes at address %#x is in no PT_LOAD", at.Tag, bytes.Val, at.Val)
		}
		n, skip := bytes.Val/entry, uint64(0)
		if d, ok := im.Dyn(t.relative); ok && t.relative != 0 {
			skip = min(d.Val, n)
		}
		err := im.EachPiece(off+skip*entry, n-skip, entry, func(_ uint64, b []byte) {
			for ; uint64(len(b)) >= entry && failed == nil; b = b[entry:] {
				var symbol, kind uint64
				switch info := b[w:]; {
				case l.im.long && l.im.little:
					kind, symbol = uint64(binary.LittleEndian.Uint32(info)), uint64(binary.LittleEndian.Uint32(info[4:]))
				case l.im.long:
					kind, symbol = uint64(im.Order.Uint32(info[4:])), uint64(im.Order.Uint32(info))
				default:
					symbol, kind = uint64(im.Order.Uint32(info)>>8), uint64(info[pick(l.im.little, 0, 3)])
				}
				if symbol == 0 || kind == 0 || symbol >= l.Symbols || seen[symbol]&own != 0 && kind != copies {
					continue
				}
				bit := uint8(plain)
				switch {
				case kind == copies:
					bit = copied
				case kind == slots && t.calls && !now:
					bit = slot | lazy
				case kind == slots:
					bit = slot
				}
				if seen[symbol]&bit != bit {
					seen[symbol] |= bit
					take(uint32(symbol), bit)
				}
			}
		})
		if err = cmp.Or(failed, err); err != nil {
			return err
		}
	}
	l.References = slices.Clip(l.References)
	return nil
}

// readHash prepares the hash table: DT_GNU_HASH, or else DT_HASH with words of some bytes.
func (l *Linkage) readHash(b []byte, gnu bool, size uint64) error {
	h := hashTable{gnu: gnu, size: size}
	if !gnu {
		buckets := uint64(l.word(b, 0, size)) * size
		h.buckets, h.chain = b[2*size:2*size+buckets], b[2*size+buckets:]
		l.hash = h
		return nil
	}
	buckets, bloom := 4*uint64(l.word(b, 0, 4)), uint64(l.word(b, 2, 4))*pick(l.im.long, 8, 4)
	if size := uint64(len(b)); bloom > size || buckets > size || 16+bloom+buckets > size {
		return Malformed(0, "DT_GNU_HASH of %d bytes has %d of buckets and a filter of %d", size, buckets, bloom)
	}
	if bloom > 0 { // else nothing is found in it
		h.first, h.shift, h.bloom = l.word(b, 1, 4), l.word(b, 3, 4), b[16:16+bloom]
		h.buckets, h.chain = b[16+bloom:16+bloom+buckets], b[16+bloom+buckets:]
	}
	l.hash = h
	return nil
}

// gnuHash is the hash of DT_GNU_HASH, sysvHash that of DT_HASH.
func gnuHash(name []byte) uint32 {
	h := uint32(5381)
	for _, c := range name {
		h = 33*h + uint32(c)
	}
	return h
}

func sysvHash(name string) uint32 {
	h := uint32(0)
	for _, c := range []byte(name) {
		h = h<<4 + uint32(c)
		h ^= h >> 24 & 0xf0
		h &= 0x0fffffff
	}
	return h
}
