package elfedit

import (
	"bytes"
	"cmp"
	"debug/elf"
	"strconv"
	"sync"

	"cuda-runpath/pkg/elfimage"
)

// image is the edited file, with what only an editor asks of it.
type image struct {
	*elfimage.Image
	size  uint64           // of the file, bytes
	room  span             // the last one in the string table, once looked for; of size 0 if there is none
	all   []extent         // once looked for; see extents
	owner []elfimage.Owner // likewise; see owned
	table []byte           // the dynamic string table, once read

	scratch *scratch // of the plan that is made, or nil

	lookedForRoom bool
	// 2 + stringSection and 2 + interpSection; 0 before they are asked. Each owner of bytes and each symbol asks for
	// them: with 40,000 sections a plan takes 0.05 s, and 19 s without this.
	strings, interp int
}

func newImage(im *elfimage.Image) *image {
	return &image{Image: im, size: uint64(im.Size())}
}

// scratch is a plan's working memory, which the next plan uses again; nothing of an [Edit] is in it. In a run of a
// thousand edits, each page asked of the kernel takes as long as two writes.
type scratch struct {
	goal    goal
	layout  layout // the last one that was tried
	extents []extent
	entries []entry
	dynamic []elfimage.Dyn // of all tries
	blocks  []block        // those of all tries
	indices []int          // of what is in them
	offsets []uint64
	moves   []uint64 // by how much sections move, in memory
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// work returns the memory of the plan.
func (im *image) work() *scratch {
	if im.scratch == nil {
		im.scratch = new(scratch)
	}
	return im.scratch
}

// take returns room for n more elements, after those that are in use.
func take[T any](all *[]T, n int) []T {
	at := len(*all)
	if n > cap(*all)-at {
		*all, at = make([]T, 0, max(2*n, 2*cap(*all), 16)), 0
	}
	*all = (*all)[:at+n]
	return (*all)[at : at : at+n]
}

// owned is Owners, looked for once. The headers must not change afterwards.
func (im *image) owned() []elfimage.Owner {
	if im.owner == nil {
		im.owner = im.Owners()
	}
	return im.owner
}

// hasDynamic reports whether the dynamic section has been read.
func (im *image) hasDynamic() bool { return im.DynCap > 0 }

// stringSection is elfimage's, looked for once.
func (im *image) stringSection() int {
	if im.strings == 0 {
		im.strings = 2 + im.Image.StringSection()
	}
	return im.strings - 2
}

// sectionNamed reports whether section i has that name, without a bound on the length of its own.
func (im *image) sectionNamed(i int, name string) bool {
	return im.nameAt(im.Sections[i].NameOff, name)
}

// nameAt reports whether a name of sections is at an offset of their table.
func (im *image) nameAt(at uint32, name string) bool {
	if int(im.Shstrndx) >= len(im.Sections) {
		return false
	}
	t := &im.Sections[im.Shstrndx]
	off, n := uint64(at), uint64(len(name)+1)
	if !t.InFile() || t.Size < n || off > t.Size-n || t.Off > im.size {
		return false
	}
	b, err := im.Read(t.Off+off, n)
	return err == nil && string(b) == name+"\x00"
}

// readTable reads the whole dynamic string table, for a copy in a new place.
func (im *image) readTable() (_ []byte, err error) {
	if im.table == nil {
		im.table, err = im.Read(im.StrOff, im.StrSize)
	}
	return im.table, err
}

// stringStart returns the offset after the last NUL between from and off, or from.
func (im *image) stringStart(from, off uint64) (uint64, error) {
	for end := off; end > from; {
		start := end - min(end-from, 512)
		b, err := im.Read(im.StrOff+start, end-start)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, 0); i >= 0 {
			return start + uint64(i) + 1, nil
		}
		end = start
	}
	return from, nil
}

// zeros reports whether n bytes at off are all zero.
func (im *image) zeros(off, n uint64) (bool, error) {
	first, err := im.firstData(off, n)
	return first == off+n, err
}

// firstData returns the offset of the first of n bytes at off that is not zero, or off+n.
func (im *image) firstData(off, n uint64) (uint64, error) {
	size := min(n, 64<<10)
	buf := make([]byte, size)
	end := off + n
	for off < end {
		if off = im.NextData(off); off >= end {
			break
		}
		b := buf[:min(end-off, uint64(len(buf)))]
		if err := elfimage.ReadFull(im, b, off); err != nil {
			return 0, err
		}
		if n := leadingZeros(b); n < len(b) {
			return off + uint64(n), nil
		}
		off += uint64(len(b))
	}
	return end, nil
}

// leadingZeros returns how many zero bytes b begins with.
func leadingZeros(b []byte) int {
	if isZero(b) {
		return len(b)
	}
	return len(b) - len(bytes.TrimLeft(b, "\x00")) // a byte at a time
}

// isZero reports whether all bytes of b are zero.
func isZero(b []byte) bool {
	for n := len(someZeros); len(b) > n; b = b[n:] {
		if !bytes.Equal(b[:n], someZeros[:]) {
			return false
		}
	}
	return bytes.Equal(b, someZeros[:len(b)])
}

// What follows are facts about the old file, which planner and verifier both ask for. They know nothing of a plan.
// quirks.go has more: isHole, anchorSection and staleEnd.

// movableProg reports whether readers find what a program header of a type describes by that header, or by a section
// header, so that it may move.
func movableProg(t elf.ProgType) bool {
	switch t {
	case elf.PT_NOTE, elf.PT_GNU_PROPERTY, elf.PT_MIPS_ABIFLAGS, elf.PT_MIPS_REGINFO, elf.PT_INTERP:
		return true
	}
	return false
}

// tableEnd is the offset after the program headers.
func (im *image) tableEnd() uint64 { return im.Phoff + uint64(len(im.Progs))*im.PhdrSize() }

// symbolVersion is the entry of DT_VERSYM for a dynamic symbol.
type symbolVersion struct {
	at      uint64 // in the file
	version uint16
	name    string // of the symbol; "" if that is local or has no version
}

// VER_NDX_LOCAL and VER_NDX_GLOBAL: symbols without a version.
const versionLocal, versionGlobal = 0, 1

// eachVersion calls do for each dynamic symbol of a file with versions.
func (im *image) eachVersion(do func(symbolVersion)) error {
	d, ok := im.Dyn(elf.DT_VERSYM)
	if !ok {
		return nil
	}
	off, n, known := im.DynSymbols()
	at, mapped := im.FileOffset(d.Val, 2*n)
	versym, ok := im.Memory(d.Val, 2*n)
	if !known || !mapped || !ok {
		return elfimage.Malformed(im.DynOff, "neither section headers nor a hash table give the number of dynamic symbols")
	}
	size, failed := im.SymSize(), error(nil)
	err := im.EachPiece(off, n, size, func(from uint64, b []byte) {
		for ; len(b) > 0; at, versym, b = at+2, versym[2:], b[size:] {
			s := symbolVersion{at: at, version: im.Order.Uint16(versym)}
			if s.version != versionLocal && s.version != versionGlobal && failed == nil {
				s.name, failed = im.DynString(elfimage.Dyn{Tag: elf.DT_SYMTAB, Val: uint64(im.Order.Uint32(b)), Off: from})
			}
			do(s)
		}
	})
	return cmp.Or(err, failed)
}

// expendable returns a program header that the file does not need, or -1. It is the way out if code or constants come
// right after the table, as with linker scripts (node's .rodata: NixOS/patchelf 531) and gold --rosegment.
//
// On x86, glibc takes the properties from PT_NOTE if there is no PT_GNU_PROPERTY (sysdeps/x86/dl-prop.h). PT_PHDR
// tells a loader how far the program is from its linked address (glibc elf/rtld.c, rtld_setup_main_map). An ET_EXEC
// program is where it was linked, and nobody reads a library's PT_PHDR. A static-PIE program reads its own (musl
// src/env/__init_tls.c).
func (im *image) expendable() int {
	for i := range im.Progs {
		q := &im.Progs[i]
		if q.Type == elf.PT_PHDR && (im.Type == elf.ET_EXEC || im.Prog(elf.PT_INTERP) == nil &&
			im.SkipReason() != elfimage.StaticPIE) {
			return i
		}
		if q.Type != elf.PT_GNU_PROPERTY || im.Machine != elf.EM_X86_64 && im.Machine != elf.EM_386 {
			continue
		}
		for j := range im.Progs {
			if n := &im.Progs[j]; n.Type == elf.PT_NOTE && n.Off <= q.Off && q.Off+q.Filesz <= n.Off+n.Filesz {
				return i
			}
		}
	}
	return -1
}

// interpSection returns the index of the section with which PT_INTERP ends, or -1.
func (im *image) interpSection() int {
	if im.interp != 0 {
		return im.interp - 2
	}
	im.interp = 1
	old := im.Prog(elf.PT_INTERP)
	for i := 0; i < len(im.Sections) && old != nil; i++ {
		if s := &im.Sections[i]; s.Type == elf.SHT_PROGBITS && s.Size > 0 && s.Off >= old.Off &&
			s.Off+s.Size == old.Off+old.Filesz {
			im.interp = i + 2
			break
		}
	}
	return im.interp - 2
}

// findRoom returns the last room, the bytes after a marker, as a range of the string table. Its size is 0 if there is
// none, or if it cannot be read, which whoever needs it will notice.
func (im *image) findRoom() span {
	if im.lookedForRoom {
		return im.room
	}
	im.lookedForRoom = true
	const near = 64 << 10 // our room is at the end of the table unless another tool added to it
	if base := im.StrSize - near; im.table == nil && im.StrSize > near {
		if b, err := im.Read(im.StrOff+base, near); err == nil {
			im.room = lastRoom(b, base, im.StrSize)
		}
	}
	if im.room.size == 0 {
		if table, err := im.readTable(); err == nil {
			im.room = lastRoom(table, 0, im.StrSize)
		}
	}
	return im.room
}

// lastRoom finds the room of the last valid marker in b, which is at offset base of a table of size bytes.
func lastRoom(b []byte, base, size uint64) (last span) {
	for from := 0; ; { // forwards, because bytes.LastIndex is much slower than Index in a table of megabytes
		i := bytes.Index(b[from:], roomMarkBytes)
		if i < 0 {
			return last
		}
		nul := from + i - 1 // before the mark, which is a string
		at := nul + roomHead
		from += i + 1
		if nul < 0 || b[nul] != 0 || at > len(b) || b[at-1] != 0 {
			continue
		}
		n, err := strconv.ParseUint(string(b[at-1-roomDigits:at-1]), 16, 64)
		if err == nil && n > 0 && base+uint64(at)+n <= size {
			last = span{base + uint64(at), n}
		}
	}
}

// inOurRoom reports whether a string of the table is in our room, where no string of the linker's shares its bytes.
func (im *image) inOurRoom(off uint64) bool {
	r := im.findRoom()
	return off >= r.off && off < r.end()
}

// isNoteHole reports whether a section is zeros where a resolution note was or can grow.
func (im *image) isNoteHole(i int) (bool, error) {
	s := &im.Sections[i]
	if s.Type != elf.SHT_PROGBITS || s.Flags != elf.SHF_ALLOC || !s.HasBytes() || s.Size > maxNoteRoom ||
		s.Off > im.size-s.Size || !im.sectionNamed(i, cacheName) {
		return false, nil
	}
	return im.zeros(s.Off, s.Size)
}
