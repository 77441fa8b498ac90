package elfimage

import (
	"debug/elf"
	"encoding/binary"
)

// Header is the ELF header (gABI, "ELF Header"), as it is in the file.
type Header struct {
	Ident      [elf.EI_NIDENT]byte
	Class      elf.Class
	Data       elf.Data
	OSABI      elf.OSABI
	Type       elf.Type
	Machine    elf.Machine
	Version    uint32
	Phoff      uint64
	Shoff      uint64
	Flags      uint32
	Ehsize     uint16
	Phentsize  uint16
	Phnum      uint16
	Shentsize  uint16
	Shnum      uint16
	Shstrndx   uint16
	byteOrder  binary.ByteOrder
	headerSize int
}

// MinHeader is the size of the smaller header, of 32-bit files, in bytes.
const MinHeader = 52

// DecodeHeader decodes the header at the beginning of a file and judges nothing in it. A byte order other than
// big-endian counts as little-endian, a class other than 64-bit as 32-bit. whole is false if b ends before the
// header; then only what e_ident holds is set. isELF is false if the magic is missing.
func DecodeHeader(b []byte) (h Header, isELF, whole bool) {
	if len(b) < len(elf.ELFMAG) || string(b[:len(elf.ELFMAG)]) != elf.ELFMAG {
		return h, false, false
	}
	copy(h.Ident[:], b)
	h.Class, h.Data, h.OSABI = elf.Class(h.Ident[elf.EI_CLASS]), elf.Data(h.Ident[elf.EI_DATA]),
		elf.OSABI(h.Ident[elf.EI_OSABI])
	h.byteOrder, h.headerSize = binary.LittleEndian, MinHeader
	if h.Data == elf.ELFDATA2MSB {
		h.byteOrder = binary.BigEndian
	}
	word := func(at int) uint64 { return uint64(h.byteOrder.Uint32(b[at:])) }
	width := 4
	if h.Class == elf.ELFCLASS64 {
		h.headerSize, width = 64, 8
		word = func(at int) uint64 { return h.byteOrder.Uint64(b[at:]) }
	}
	if len(b) < h.headerSize {
		return h, true, false
	}
	half := func(at int) uint16 { return h.byteOrder.Uint16(b[at:]) }
	h.Type, h.Machine, h.Version = elf.Type(half(16)), elf.Machine(half(18)), h.byteOrder.Uint32(b[20:])
	at := 24 + width // after e_entry
	h.Phoff, h.Shoff = word(at), word(at+width)
	at += 2 * width
	h.Flags = h.byteOrder.Uint32(b[at:])
	h.Ehsize, h.Phentsize, h.Phnum = half(at+4), half(at+6), half(at+8)
	h.Shentsize, h.Shnum, h.Shstrndx = half(at+10), half(at+12), half(at+14)
	return h, true, true
}
