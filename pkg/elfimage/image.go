package elfimage

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// ErrNotELF is what Parse returns for input that does not begin with the ELF magic.
var ErrNotELF = errors.New("not an ELF file")

// A FormatError says what is wrong with an ELF image and where.
type FormatError struct {
	Off int64  // offset in the file, in bytes
	Msg string // what is wrong, without the offset
}

func (e *FormatError) Error() string { return fmt.Sprintf("%s (offset %#x)", e.Msg, e.Off) }

// Malformed returns a FormatError for the offset off, in bytes.
func Malformed(off uint64, format string, args ...any) error {
	if off > math.MaxInt64 {
		off = math.MaxInt64
	}
	return &FormatError{Off: int64(off), Msg: fmt.Sprintf(format, args...)}
}

// IsMalformed reports whether an error says that a file is malformed. Real packages hold such files on purpose, as
// test data of compilers and debuggers, and also unreadable ones (File.Unreadable of package tree).
func IsMalformed(err error) bool {
	var malformed *FormatError
	return errors.As(err, &malformed)
}

// Prog is a program header (gABI, "Program Header"), in the host's integers.
type Prog struct {
	Type   elf.ProgType
	Flags  elf.ProgFlag
	Off    uint64 // p_offset, bytes from the start of the file
	Vaddr  uint64
	Paddr  uint64
	Filesz uint64 // bytes in the file
	Memsz  uint64 // bytes in memory
	Align  uint64
}

// Section is a section header (gABI, "Sections"). The loader never reads one.
type Section struct {
	NameOff   uint32 // sh_name: offset in the section name table
	Type      elf.SectionType
	Flags     elf.SectionFlag
	Addr      uint64
	Off       uint64
	Size      uint64
	Link      uint32
	Info      uint32
	Addralign uint64
	Entsize   uint64
}

// InFile reports whether the section occupies bytes of the file.
func (s *Section) InFile() bool { return s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL }

// HasBytes reports whether a section has bytes of the file that can be in the way.
func (s *Section) HasBytes() bool { return s.InFile() && s.Size > 0 }

// isZeros reports whether a section has memory and no bytes of the file.
func (s *Section) isZeros() bool {
	return s.Type == elf.SHT_NOBITS && s.Flags&elf.SHF_ALLOC != 0 && s.Flags&elf.SHF_TLS == 0 && s.Size > 0
}

// HasBytes reports whether a program header describes bytes of its own.
func (p *Prog) HasBytes() bool {
	return p.Type != elf.PT_LOAD && p.Type != elf.PT_PHDR && p.Type != elf.PT_NULL && p.Filesz > 0
}

// Dyn is one entry of the dynamic section, and where it is.
type Dyn struct {
	Tag elf.DynTag
	Val uint64
	Off uint64 // offset of the entry in the file
}

// Image is an ELF file as far as it has been read: headers and the dynamic section.
// It keeps the reader that it was parsed from and reads strings from it on demand.
type Image struct {
	Class   elf.Class
	Order   binary.ByteOrder // named by e_ident[EI_DATA]
	Data    elf.Data
	OSABI   elf.OSABI
	Type    elf.Type
	Machine elf.Machine
	Flags   uint32 // e_flags

	Progs    []Prog
	Sections []Section // empty if the file has no section header table

	// Dynamic holds the entries before the first DT_NULL.
	Dynamic []Dyn

	Phoff, Shoff uint64
	Shstrndx     uint32
	ehsize       uint64

	DynOff   uint64 // file offset of the dynamic section
	DynCap   int    // entries that fit in PT_DYNAMIC, with the terminator
	StrAddr  uint64 // DT_STRTAB, an address
	StrSize  uint64 // DT_STRSZ, bytes
	StrOff   uint64 // file offset of the string table
	detached bool   // .dynamic is NOBITS
	loads    bool   // judged as the loader does: see ParseLoad
	unread   int    // section headers that ParseLoad has not read
	named    uint64 // bytes of dynamic strings that were read

	window // what is read of the file
}

// Size returns the size of the file in bytes.
func (w *window) Size() int64 { return int64(w.size) }

// Is64 reports whether the image is of ELFCLASS64.
func (im *Image) Is64() bool { return im.Class == elf.ELFCLASS64 }

// The sizes of the structures of the image's class, in bytes (gABI, "Object Files").

// EhdrSize returns the size of the ELF header.
func (im *Image) EhdrSize() uint64 { return pick(im.Is64(), 64, 52) }

// PhdrSize returns the size of a program header.
func (im *Image) PhdrSize() uint64 { return pick(im.Is64(), 56, 32) }

// ShdrSize returns the size of a section header.
func (im *Image) ShdrSize() uint64 { return pick(im.Is64(), 64, 40) }

// DynSize returns the size of an entry of the dynamic section.
func (im *Image) DynSize() uint64 { return pick(im.Is64(), 16, 8) }

// SymSize returns the size of a symbol.
func (im *Image) SymSize() uint64 { return pick(im.Is64(), 24, 16) }

// WordSize returns the size of an address.
func (im *Image) WordSize() uint64 { return pick(im.Is64(), 8, 4) }

func pick(long bool, a, b uint64) uint64 {
	if long {
		return a
	}
	return b
}

// Word reads an address-sized integer.
func (im *Image) Word(b []byte) uint64 {
	if im.Is64() {
		return im.Order.Uint64(b)
	}
	return uint64(im.Order.Uint32(b))
}

// PutWord writes an address-sized integer.
func (im *Image) PutWord(b []byte, v uint64) {
	if im.Is64() {
		im.Order.PutUint64(b, v)
	} else {
		im.Order.PutUint32(b, uint32(v))
	}
}

// HeadSize is how many bytes of every ELF file are read first. They hold the program headers of nearly all files.
const HeadSize = 4096

// PageSize is the smallest page of the machines that the loaders know, in bytes.
const PageSize = 4096

// Parse reads the headers and the dynamic section of the size bytes at r.
//
// It returns ErrNotELF if the magic is missing, a *FormatError if the file contradicts itself or its size, and the
// reader's error if reading fails. Relocatable objects, core files and files with no dynamic section parse; see
// [Image.SkipReason]. No allocation is larger than the part of the file that goes into it.
func Parse(r io.ReaderAt, size int64) (*Image, error) {
	if size < 0 {
		return nil, fmt.Errorf("negative file size %d", size)
	}
	return ParseHead(r, size, nil)
}

// ParseHead is Parse for a caller that has already read the beginning of the file; nil: it has not. head is only
// read, until the image is released.
func ParseHead(r io.ReaderAt, size int64, head []byte) (*Image, error) {
	im, done, err := parseHead(r, size, head, false)
	if done {
		return im, err
	}
	im.hold()
	return im.parse()
}

// ParseLoad is ParseHead for a caller that judges a file as the loader does, by what the kernel and glibc read
// (fs/binfmt_elf.c; elf/dl-load.c, _dl_map_object_from_fd). They do not read section headers, so Sections is empty.
// Only if PT_DYNAMIC leads to no dynamic section are they read, to tell whether the file is a detached debug file.
func ParseLoad(r io.ReaderAt, size int64, head []byte) (*Image, error) {
	im, done, err := parseHead(r, size, head, true)
	if done {
		return im, err
	}
	sections := im.Sections
	im.most = 2 << 10 // the dynamic section, and the strings that are not in the head
	if dyn := im.dynamicHeader(); dyn == nil || dyn.Filesz > 0 && im.checkSegments() == nil &&
		im.parseDynamic(dyn) == nil {
		im.Sections, im.unread = nil, len(sections)
		if dyn == nil && im.Prog(elf.PT_INTERP) != nil {
			err = im.checkSegments()
		}
		return im, err
	}
	im.Sections, im.Dynamic, im.DynOff, im.DynCap, im.StrAddr, im.StrSize, im.StrOff = sections, nil, 0, 0, 0, 0, 0
	return im.parse()
}

// dynamicHeader returns the PT_DYNAMIC that counts. The loader lets a later one replace an earlier one.
func (im *Image) dynamicHeader() (dyn *Prog) {
	if !im.loads {
		return im.Prog(elf.PT_DYNAMIC)
	}
	for i := range im.Progs {
		if im.Progs[i].Type == elf.PT_DYNAMIC {
			dyn = &im.Progs[i]
		}
	}
	return dyn
}

// ReadSections reads the section headers that ParseLoad has not read, if they can be read.
func (im *Image) ReadSections() {
	im.most = windowSize
	im.Sections = reuse(&im.spare().sections, im.unread)
	if im.parseSections() != nil {
		im.Sections = nil
	}
}

// ParseSections reads the program headers and section headers of a file of any type, even a relocatable object, and
// nothing that they lead to.
func ParseSections(r io.ReaderAt, size int64, head []byte) (*Image, error) {
	im, h, err := parseHeader(r, size, head, false)
	if err != nil {
		return nil, err
	}
	if err := im.parseTables(h); err != nil {
		return nil, err
	}
	return im, im.parseSections()
}

// parseHead reads the ELF header and the program headers. loads: the file is judged as the loader does. done: there
// is no more to read.
func parseHead(r io.ReaderAt, size int64, head []byte, loads bool) (im *Image, done bool, err error) {
	im, h, err := parseHeader(r, size, head, loads)
	if err != nil {
		return nil, true, err
	}
	if im.Type != elf.ET_EXEC && im.Type != elf.ET_DYN {
		return im, true, nil
	}
	if err := im.parseTables(h); err != nil {
		return nil, true, err
	}
	return im, im.notForLoaders() == OtherLoader, nil // its dynamic section is not a real one
}

// parse reads the rest after parseHead.
func (im *Image) parse() (*Image, error) {
	if err := im.parseSections(); err != nil && !im.loads {
		return nil, err
	}
	dyn := im.dynamicHeader()
	if dyn != nil {
		im.detached = im.isDetached(dyn)
	}
	if im.detached || dyn == nil && im.Prog(elf.PT_INTERP) == nil {
		return im, nil
	}
	if err := im.checkSegments(); err != nil {
		return nil, err
	}
	if dyn == nil || dyn.Filesz == 0 { // empty if the file was made without one
		return im, nil
	}
	return im, im.parseDynamic(dyn)
}

// parseHeader reads the ELF header, and judges what must be right in every file.
func parseHeader(r io.ReaderAt, size int64, head []byte, loads bool) (*Image, Header, error) {
	im := &Image{window: newWindow(r, uint64(size), head), loads: loads}
	if head == nil {
		head = im.spare().head[:min(size, HeadSize)]
		if err := ReadFull(r, head, 0); err != nil {
			return nil, Header{}, err
		}
		im.head = head
	}
	h, isELF, whole := DecodeHeader(head)
	if !isELF {
		return nil, h, ErrNotELF
	}
	if err := im.take(h, head, whole); err != nil {
		return nil, h, err
	}
	return im, h, nil
}

// take takes over what the ELF header says.
func (im *Image) take(h Header, head []byte, whole bool) error {
	if len(head) < elf.EI_NIDENT {
		return Malformed(0, "ELF header is cut short: %d of at least %d bytes", len(head), MinHeader)
	}
	if h.Data != elf.ELFDATA2LSB && h.Data != elf.ELFDATA2MSB {
		return Malformed(elf.EI_DATA, "unknown data encoding %d", head[elf.EI_DATA])
	}
	if h.Class != elf.ELFCLASS32 && h.Class != elf.ELFCLASS64 {
		return Malformed(elf.EI_CLASS, "unknown ELF class %d", head[elf.EI_CLASS])
	}
	if head[elf.EI_VERSION] != byte(elf.EV_CURRENT) && !im.loads { // the kernel does not look at a program's
		return Malformed(elf.EI_VERSION, "unknown ELF version %d", head[elf.EI_VERSION])
	}
	if !whole {
		return Malformed(0, "ELF header is cut short: %d of %d bytes", len(head), h.headerSize)
	}
	im.Class, im.Data, im.OSABI, im.Order = h.Class, h.Data, h.OSABI, h.byteOrder
	im.Type, im.Machine, im.Flags = h.Type, h.Machine, h.Flags
	im.Phoff, im.Shoff = h.Phoff, h.Shoff
	if uint64(h.Ehsize) != im.EhdrSize() && !im.loads {
		return Malformed(im.ehsizeAt(), "e_ehsize is %d, not %d", h.Ehsize, im.EhdrSize())
	}
	im.ehsize = uint64(h.Ehsize)
	return nil
}

// ehsizeAt returns the offset of e_ehsize in the ELF header.
func (im *Image) ehsizeAt() uint64 { return 28 + 3*im.WordSize() }

// parseTables reads the program headers and counts the section headers.
func (im *Image) parseTables(h Header) error {
	at := im.ehsizeAt()
	phnum, shnum, shstrndx := uint64(h.Phnum), uint64(h.Shnum), h.Shstrndx
	phentsize, shentsize := uint64(h.Phentsize), uint64(h.Shentsize)
	if phnum == 0xffff { // PN_XNUM; only core files are that large
		return Malformed(at+4, "e_phnum is PN_XNUM: more than 65534 program headers")
	}
	if phnum > 0 && phentsize != im.PhdrSize() {
		return Malformed(at+2, "e_phentsize is %d, not %d", phentsize, im.PhdrSize())
	}
	if shnum > 0 && shentsize != im.ShdrSize() && !im.loads {
		return Malformed(at+6, "e_shentsize is %d, not %d", shentsize, im.ShdrSize())
	}
	im.Shstrndx = uint32(shstrndx)
	if err := im.parseProgs(phnum); err != nil {
		return err
	}
	im.Sections = make([]Section, 0)
	err := im.countSections(at+8, shnum)
	if err == nil && im.loads {
		err = im.checkSections()
	}
	if im.loads && (err != nil || shentsize != im.ShdrSize()) {
		im.Sections, err = nil, nil
	}
	return err
}

// table calls do for each of a table's n entries. It checks the table against the file's size.
func (im *Image) table(off, n, entsize uint64, what string, do func(entry []byte)) error {
	if n > im.size/entsize || off > im.size-n*entsize {
		return Malformed(off, "%s of %d entries is outside the file of %d bytes", what, n, im.size)
	}
	return im.EachPiece(off, n, entsize, func(_ uint64, b []byte) {
		for ; len(b) > 0; b = b[entsize:] {
			do(b)
		}
	})
}

func (im *Image) parseProgs(n uint64) error {
	if n == 0 {
		return nil
	}
	own := im.spare()
	progs := own.progs[:0]
	err := im.table(im.Phoff, n, im.PhdrSize(), "program header table",
		func(b []byte) { progs = append(progs, im.DecodeProg(b)) })
	own.progs, im.Progs = progs, slices.Clip(progs)
	return err
}

// DecodeProg returns the program header at the beginning of b.
func (im *Image) DecodeProg(b []byte) Prog {
	u32 := func(at int) uint64 { return uint64(im.Order.Uint32(b[at:])) }
	if !im.Is64() {
		return Prog{Type: elf.ProgType(u32(0)), Off: u32(4), Vaddr: u32(8), Paddr: u32(12),
			Filesz: u32(16), Memsz: u32(20), Flags: elf.ProgFlag(u32(24)), Align: u32(28)}
	}
	u64 := func(at int) uint64 { return im.Order.Uint64(b[at:]) }
	return Prog{Type: elf.ProgType(u32(0)), Flags: elf.ProgFlag(u32(4)), Off: u64(8), Vaddr: u64(16),
		Paddr: u64(24), Filesz: u64(32), Memsz: u64(40), Align: u64(48)}
}

// EncodeProg writes a program header into b, which has room for it.
func (im *Image) EncodeProg(b []byte, p Prog) {
	u32 := func(at int, v uint64) { im.Order.PutUint32(b[at:], uint32(v)) }
	u32(0, uint64(p.Type))
	if !im.Is64() {
		for i, v := range []uint64{p.Off, p.Vaddr, p.Paddr, p.Filesz, p.Memsz, uint64(p.Flags), p.Align} {
			u32(4+4*i, v)
		}
		return
	}
	u32(4, uint64(p.Flags))
	for i, v := range []uint64{p.Off, p.Vaddr, p.Paddr, p.Filesz, p.Memsz, p.Align} {
		im.Order.PutUint64(b[8+8*i:], v)
	}
}

// countSections allocates Sections. A count of 0 with a table means that the
// first entry's sh_size holds the count (gABI, "ELF Header", e_shnum), and an
// index of SHN_XINDEX that its sh_link holds e_shstrndx.
func (im *Image) countSections(at, n uint64) error {
	if im.Shoff == 0 {
		return nil
	}
	if n == 0 || im.Shstrndx == uint32(elf.SHN_XINDEX) {
		var first Section
		err := im.table(im.Shoff, 1, im.ShdrSize(), "section header table", func(b []byte) { first = im.decodeSection(b) })
		if err != nil {
			return err
		}
		if n == 0 {
			n = first.Size
		}
		if im.Shstrndx == uint32(elf.SHN_XINDEX) {
			im.Shstrndx = first.Link
		}
	}
	if n > im.size/im.ShdrSize() {
		return Malformed(at, "section header table of %d entries is outside the file of %d bytes", n, im.size)
	}
	im.Sections = reuse(&im.spare().sections, int(n))
	return nil
}

// HasSections reports whether the file has a section header table, read or not.
func (im *Image) HasSections() bool { return im.Shoff != 0 }

// checkSections refuses a section header table that is not in the file.
func (im *Image) checkSections() error {
	n := uint64(len(im.Sections))
	switch {
	case n == 0:
		return nil
	case im.Shoff > im.size-n*im.ShdrSize():
		return Malformed(im.Shoff, "section header table of %d entries is outside the file of %d bytes", n, im.size)
	case uint64(im.Shstrndx) >= n:
		return Malformed(im.Shoff, "section name table is section %d of %d", im.Shstrndx, n)
	}
	return nil
}

func (im *Image) parseSections() error {
	n := uint64(len(im.Sections))
	if n == 0 {
		return nil
	}
	if err := im.checkSections(); err != nil {
		return err
	}
	i := 0
	return im.table(im.Shoff, n, im.ShdrSize(), "section header table", func(b []byte) {
		im.Sections[i] = im.decodeSection(b)
		i++
	})
}

func (im *Image) decodeSection(b []byte) Section {
	if im.Is64() && im.Data == elf.ELFDATA2LSB { // most files; calls through the interface cost more than the rest
		le, b := binary.LittleEndian, b[:64]
		return Section{NameOff: le.Uint32(b), Type: elf.SectionType(le.Uint32(b[4:])),
			Flags: elf.SectionFlag(le.Uint64(b[8:])),
			Addr:  le.Uint64(b[16:]), Off: le.Uint64(b[24:]), Size: le.Uint64(b[32:]),
			Link: le.Uint32(b[40:]), Info: le.Uint32(b[44:]), Addralign: le.Uint64(b[48:]), Entsize: le.Uint64(b[56:])}
	}
	u32 := func(at int) uint32 { return im.Order.Uint32(b[at:]) }
	s := Section{NameOff: u32(0), Type: elf.SectionType(u32(4))}
	w := int(im.WordSize())
	x := func(i int) uint64 { return im.Word(b[8+i*w:]) }
	s.Flags, s.Addr, s.Off, s.Size = elf.SectionFlag(x(0)), x(1), x(2), x(3)
	s.Link, s.Info = u32(8+4*w), u32(12+4*w)
	s.Addralign, s.Entsize = im.Word(b[16+4*w:]), im.Word(b[16+5*w:])
	return s
}

// EncodeSection writes a section header into b, which has room for it.
func (im *Image) EncodeSection(b []byte, s Section) {
	if im.Is64() && im.Data == elf.ELFDATA2LSB { // see decodeSection
		le, b := binary.LittleEndian, b[:64]
		le.PutUint32(b, s.NameOff)
		le.PutUint32(b[4:], uint32(s.Type))
		le.PutUint64(b[8:], uint64(s.Flags))
		le.PutUint64(b[16:], s.Addr)
		le.PutUint64(b[24:], s.Off)
		le.PutUint64(b[32:], s.Size)
		le.PutUint32(b[40:], s.Link)
		le.PutUint32(b[44:], s.Info)
		le.PutUint64(b[48:], s.Addralign)
		le.PutUint64(b[56:], s.Entsize)
		return
	}
	im.Order.PutUint32(b, s.NameOff)
	im.Order.PutUint32(b[4:], uint32(s.Type))
	w := int(im.WordSize())
	for i, v := range []uint64{uint64(s.Flags), s.Addr, s.Off, s.Size} {
		im.PutWord(b[8+i*w:], v)
	}
	im.Order.PutUint32(b[8+4*w:], s.Link)
	im.Order.PutUint32(b[12+4*w:], s.Info)
	im.PutWord(b[16+4*w:], s.Addralign)
	im.PutWord(b[16+5*w:], s.Entsize)
}

// Prog returns the first program header of a type, or nil.
func (im *Image) Prog(t elf.ProgType) *Prog {
	for i := range im.Progs {
		if im.Progs[i].Type == t {
			return &im.Progs[i]
		}
	}
	return nil
}

// Stack returns the PT_GNU_STACK that counts, or nil. For the kernel (fs/binfmt_elf.c, load_elf_binary) and for glibc
// (elf/dl-load.c), a later one replaces an earlier one.
func (im *Image) Stack() (stack *Prog) {
	for i := range im.Progs {
		if im.Progs[i].Type == elf.PT_GNU_STACK {
			stack = &im.Progs[i]
		}
	}
	return stack
}

// isDetached recognizes a debug file. It keeps the program headers of the file that it was split from, but its
// allocated sections hold no bytes. No linker makes a read-only section without bytes.
func (im *Image) isDetached(dyn *Prog) bool {
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type != elf.SHT_NOBITS || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_TLS != 0 || s.Size == 0 {
			continue
		}
		if s.Addr == dyn.Vaddr || s.Flags&elf.SHF_WRITE == 0 && dyn.Filesz == 0 {
			return true
		}
	}
	return false
}

// checkSegments refuses what the loader cannot map: a PT_LOAD outside the file, larger in the file than in memory,
// out of order, or in conflict with another. Entries must ascend by p_vaddr (gABI, "Program Loading").
func (im *Image) checkSegments() error {
	var last *Prog
	for i := range im.Progs {
		p := &im.Progs[i]
		at := im.Phoff + uint64(i)*im.PhdrSize()
		if p.Type == elf.PT_LOAD || !im.loads && (p.Type == elf.PT_DYNAMIC || p.Type == elf.PT_INTERP ||
			p.Type == elf.PT_NOTE) {
			size := im.size
			if im.loads { // mapped is the whole page
				size = (size + PageSize - 1) &^ (PageSize - 1)
			}
			if p.Filesz > size || p.Off > size-p.Filesz {
				return Malformed(at, "%v of %d bytes at %#x is outside the file of %d bytes", p.Type, p.Filesz, p.Off, im.size)
			}
		}
		if p.Type != elf.PT_LOAD || p.Memsz == 0 && p.Filesz == 0 { // maps nothing
			continue
		}
		switch end := p.Vaddr + p.Memsz; {
		case p.Filesz > p.Memsz && !(im.loads && im.Prog(elf.PT_INTERP) == nil): // glibc does not ask that of a library
			return Malformed(at, "PT_LOAD has p_filesz %#x above p_memsz %#x", p.Filesz, p.Memsz)
		case end < p.Vaddr || (!im.Is64() && end > math.MaxUint32+1):
			return Malformed(at, "PT_LOAD at address %#x with p_memsz %#x wraps around", p.Vaddr, p.Memsz)
		case im.loads: // since 2.35 glibc takes an odd p_align for a page
			if (p.Vaddr-p.Off)%PageSize != 0 && p.Filesz > 0 {
				return Malformed(at, "PT_LOAD has p_vaddr %#x and p_offset %#x that differ modulo a page", p.Vaddr, p.Off)
			}
		case p.Align > 1 && p.Align&(p.Align-1) != 0:
			return Malformed(at, "PT_LOAD has p_align %#x, not a power of two", p.Align)
		case p.Align > 1 && (p.Vaddr-p.Off)%min(p.Align, PageSize) != 0 && p.Filesz > 0:
			// The gABI wants them congruent modulo p_align. patchelf 0.18 breaks that if p_align is larger than a
			// page. The kernel, musl and glibc since 2.35 ask only for a page, and load the file.
			return Malformed(at, "PT_LOAD has p_vaddr %#x and p_offset %#x that differ modulo %#x", p.Vaddr, p.Off,
				min(p.Align, PageSize))
		case last != nil && p.Vaddr < last.Vaddr:
			return Malformed(at, "PT_LOAD at address %#x comes after the one at %#x", p.Vaddr, last.Vaddr)
		case last != nil && p.Vaddr < last.Vaddr+last.Memsz && p.Vaddr-p.Off != last.Vaddr-last.Off:
			// patchelf leaves overlaps in which both map the same bytes.
			return Malformed(at, "PT_LOAD at address %#x overlaps the one at %#x and maps other bytes", p.Vaddr, last.Vaddr)
		}
		last = p
	}
	return nil
}

// FileOffset maps n bytes of memory at an address to their offset in the file. ok is false if the file does not hold
// all of them in one PT_LOAD, or in several that follow each other in the file as in memory. patchelf before 0.15
// lets a section of a program run on into the next PT_LOAD.
func (im *Image) FileOffset(addr, n uint64) (off uint64, ok bool) {
	p := im.Segment(addr, n)
	if p == nil {
		p = im.Segment(addr, 1)
	}
	if p == nil {
		return 0, false
	}
	off = p.Off + (addr - p.Vaddr)
	for left := n; ; {
		here := p.Vaddr + p.Filesz - addr
		if left <= here {
			return off, true
		}
		addr, left = addr+here, left-here
		next := im.Segment(addr, 1)
		if next == nil || next.Off-next.Vaddr != p.Off-p.Vaddr {
			return 0, false
		}
		p = next
	}
}

// Segment returns the PT_LOAD that holds n bytes at an address in the file, or nil.
func (im *Image) Segment(addr, n uint64) *Prog {
	for i := range im.Progs {
		p := &im.Progs[i]
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr <= p.Filesz && n <= p.Filesz-(addr-p.Vaddr) {
			return p
		}
	}
	return nil
}

// SectionName returns the name of section i, or "" if the name table does not hold it.
func (im *Image) SectionName(i int) string {
	if i < 0 || i >= len(im.Sections) || int(im.Shstrndx) >= len(im.Sections) {
		return ""
	}
	t := &im.Sections[im.Shstrndx]
	if !t.InFile() || uint64(im.Sections[i].NameOff) >= t.Size {
		return ""
	}
	s, err := im.cstring(t.Off+uint64(im.Sections[i].NameOff), t.Off+t.Size)
	if err != nil {
		return ""
	}
	return s
}
