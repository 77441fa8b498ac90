package elfedit

import (
	"debug/elf"

	"cuda-runpath/pkg/elfimage"
)

// moveSymbols repairs the symbols of things that moved, such as __abi_tag, _DYNAMIC or a section symbol. The loader
// looks none of them up.
func (p *planner) moveSymbols(l *layout) error {
	im, moved := p.im, l.moved
	if len(moved) == 0 && l.table.addr == im.StrAddr {
		return nil
	}
	moves := take(&im.work().moves, len(im.Sections))[:len(im.Sections)]
	clear(moves)
	var dynamic *block // old linkers make _DYNAMIC absolute
	for k, b := range moved {
		for _, i := range b.sections {
			moves[i] = b.newAddr - b.addr
		}
		if b.rank == rankDynamic {
			dynamic = &moved[k]
		}
	}
	table := im.stringSection()
	if table >= 0 {
		moves[table] = l.table.addr - im.StrAddr
	}
	size, at, w := im.SymSize(), im.SymbolValueAt(), im.WordSize()
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM {
			continue
		}
		if s.Size > im.size || s.Off > im.size-s.Size {
			return elfimage.Malformed(im.Shoff+uint64(i)*im.ShdrSize(),
				"symbol table of %d bytes at %#x is outside the file", s.Size, s.Off)
		}
		err := im.EachPiece(s.Off, s.Size/size, size, func(off uint64, b []byte) {
			for ; len(b) > 0; off, b = off+size, b[size:] {
				shndx, value := im.Symbol(b)
				by := uint64(0)
				switch {
				case shndx < elf.SHN_LORESERVE && int(shndx) < len(moves):
					// gold's _edata names a section that it is not in.
					if named := &im.Sections[shndx]; inside(value, named.Addr, named.Size) {
						by = moves[shndx]
					}
				case dynamic != nil && shndx == elf.SHN_ABS && value == dynamic.addr:
					by = dynamic.newAddr - dynamic.addr
				}
				if by != 0 {
					v := im.Alloc(w)
					im.PutWord(v, value+by)
					l.put(l.now(off+at, w), v)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inside reports whether an address is in a range, or at its beginning.
func inside(addr, begin, size uint64) bool {
	return addr == begin || addr >= begin && addr-begin < size
}
