package elfimage

import (
	"bytes"
	"debug/elf"
	"unsafe"
)

// Symbol is an entry of the dynamic symbol table.
type Symbol struct {
	Name    string
	Bind    elf.SymBind
	Type    elf.SymType
	Vis     elf.SymVis
	Defined bool // its section is not SHN_UNDEF
	Value   uint64
	// Absolute: its section is SHN_ABS, where 0 is a value like any other.
	Absolute bool

	Version *Version // nil for none, and for the base version
	Index   uint16   // from DT_VERSYM, without the bit for Hidden
	Hidden  bool     // not the default version (bit 15 of DT_VERSYM)
}

// Reference is a symbol that the loader looks up for a relocation.
type Reference struct {
	Symbol uint32 // index in Symbols
	Copy   bool   // a copy relocation: never bound to the program itself
	PLT    bool   // a call through the PLT: never bound to an undefined symbol that has a value
}

// Symbols is what the loader binds by.
type Symbols struct {
	Symbols    []Symbol
	References []Reference // each kind once, in the order of the relocations
	Versioned  bool        // there is a DT_VERSYM
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

// Bounds of what DynamicSymbols holds in memory: symbols, bytes of their names, and bytes
// of relocations that it reads. The largest libraries that are shipped, TensorFlow's and
// PyTorch's, have some hundred thousand symbols; a file with holes may claim any number.
const (
	maxSymbols     = 1 << 19
	maxSymbolNames = 64 << 20
	maxRelocations = 1 << 30
)

// DynamicSymbols returns the dynamic symbols and which of them relocations refer to. It
// knows the machines of glibc but MIPS, whose loader binds by the GOT without relocations;
// known is false for others, and where the number of symbols cannot be determined.
func (im *Image) DynamicSymbols() (out Symbols, known bool, err error) {
	copyType, slotType, ok := bindRelocations(im.Machine)
	off, n, counted := im.DynSymbols()
	if !ok || !counted {
		return out, false, nil
	}
	if n > maxSymbols || im.StrSize > maxSymbolNames {
		return out, true, Malformed(off, "%d dynamic symbols with %d bytes of names: more than %d or %d bytes are not looked at", n, im.StrSize, maxSymbols, maxSymbolNames)
	}
	// A string for all names: symbols are many.
	b := make([]byte, im.StrSize)
	if err := ReadFull(im, b, im.StrOff); err != nil {
		return out, true, err
	}
	names := unsafe.String(unsafe.SliceData(b), len(b)) // b is not written to any more
	// Names may overlap: linkers merge one that is another one's tail. A file in which they
	// add up to much more than it has bytes is made to keep us busy.
	budget := 4*im.size + 1<<20
	size := im.SymSize()
	out.Symbols = make([]Symbol, 0, n)
	var failed error
	err = im.EachPiece(off, n, size, func(at uint64, piece []byte) {
		for ; uint64(len(piece)) >= size && failed == nil; piece, at = piece[size:], at+size {
			var s Symbol
			info, other := im.SymbolInfo(piece)
			var section elf.SectionIndex
			section, s.Value = im.Symbol(piece)
			s.Bind, s.Type, s.Vis = elf.ST_BIND(info), elf.ST_TYPE(info), elf.ST_VISIBILITY(other)
			s.Defined, s.Absolute = section != elf.SHN_UNDEF, section == elf.SHN_ABS
			name := uint64(im.Order.Uint32(piece))
			if name >= uint64(len(names)) {
				failed = Malformed(at, "a symbol's name is offset %#x of a string table of %d bytes", name, len(names))
				return
			}
			end := bytes.IndexByte(b[name:], 0)
			if end < 0 || uint64(end) > budget {
				failed = Malformed(at, "a symbol's name has no end, or names are too long")
				return
			}
			budget -= uint64(end)
			s.Name = names[name : name+uint64(end)]
			out.Symbols = append(out.Symbols, s)
		}
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		err = im.symbolVersions(&out)
	}
	if err == nil {
		err = im.references(&out, copyType, slotType)
	}
	return out, true, err
}

// symbolVersions fills in what DT_VERSYM says.
func (im *Image) symbolVersions(out *Symbols) error {
	d, ok := im.Dyn(elf.DT_VERSYM)
	if !ok {
		return nil
	}
	out.Versioned = true
	byIndex := map[uint16]*Version{}
	defined, _, err := im.VersionsDefined()
	if err != nil {
		return err
	}
	needed, err := im.VersionsNeeded()
	if err != nil {
		return err
	}
	for i := range defined {
		if v := &defined[i]; !v.base && v.Name != "" {
			byIndex[v.index&0x7fff] = v
		}
	}
	for i := range needed {
		if v := &needed[i]; v.Name != "" {
			byIndex[v.index&0x7fff] = v
		}
	}
	table, ok := im.Memory(d.Val, 2*uint64(len(out.Symbols)))
	if !ok {
		return Malformed(d.Off, "DT_VERSYM of %d symbols at address %#x is in no PT_LOAD", len(out.Symbols), d.Val)
	}
	for i := range out.Symbols {
		v := im.Order.Uint16(table[2*i:])
		s := &out.Symbols[i]
		s.Index, s.Hidden = v&0x7fff, v&0x8000 != 0
		s.Version = byIndex[s.Index]
	}
	return nil
}

// references reads DT_RELA, DT_REL and DT_JMPREL. DT_RELR has no symbols.
func (im *Image) references(out *Symbols, copies, slots uint64) error {
	seen := make([]uint8, len(out.Symbols)) // a bit for each kind of reference
	w := im.WordSize()
	plt, _ := im.Dyn(elf.DT_PLTREL)
	for _, t := range []struct {
		at, size elf.DynTag
		addend   bool
	}{{elf.DT_RELA, elf.DT_RELASZ, true}, {elf.DT_REL, elf.DT_RELSZ, false},
		{elf.DT_JMPREL, elf.DT_PLTRELSZ, elf.DynTag(plt.Val) == elf.DT_RELA}} {
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
		err := im.EachPiece(off, bytes.Val/entry, entry, func(_ uint64, b []byte) {
			for ; uint64(len(b)) >= entry; b = b[entry:] {
				info := im.Word(b[w:])
				symbol, kind := info>>32, info&0xffffffff
				if !im.Is64() {
					symbol, kind = info>>8, info&0xff
				}
				if symbol == 0 || kind == 0 || symbol >= uint64(len(out.Symbols)) {
					continue
				}
				r := Reference{uint32(symbol), kind == copies, kind == slots}
				bit := uint8(1)
				if r.Copy {
					bit = 2
				} else if r.PLT {
					bit = 4
				}
				if seen[symbol]&bit == 0 {
					seen[symbol] |= bit
					out.References = append(out.References, r)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
