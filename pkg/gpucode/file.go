package gpucode

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cuda-runpath/pkg/elfimage"
)

// File is the GPU code of one file.
type File struct {
	Containers []Container
	// Sectionless says that the file has no section headers: all that is loaded of it was
	// searched, and of no container is known what it is for.
	Sectionless bool
	// Bundles are those of code for AMD's GPUs.
	Bundles []Bundle
	// Marks are those of thinning, in the order of the file.
	Marks []Mark
}

// ThinnedFor returns for which GPUs code was left where a file has been thinned, each list once.
func (f *File) ThinnedFor() (lists []string) {
	for _, m := range f.Marks {
		if !slices.Contains(lists, m.GPUs) {
			lists = append(lists, m.GPUs)
		}
	}
	return lists
}

// Bytes returns what the containers and bundles take in the file.
func (f *File) Bytes() (n uint64) {
	for i := range f.Bundles {
		n += f.Bundles[i].Size
	}
	for i := range f.Containers {
		n += f.Containers[i].Size
	}
	return n
}

// maxEntries is the number of containers and entries that are listed of one file. cuFFT, which
// has most, has 24,000 containers of one entry.
const maxEntries = 1 << 18

const (
	archiveMagic = "!<arch>\n"
	memberHeader = 60
)

// IsFile reports whether a file that begins with head is of a kind that [Read] takes.
func IsFile(head []byte) bool {
	for _, m := range []string{elf.ELFMAG, archiveMagic, magicBytes, bundleMagic, packedMagic} {
		if len(head) >= len(m) && string(head[:len(m)]) == m {
			return true
		}
	}
	return false
}

// ErrNotCode is what Read returns for a file that is neither ELF nor an archive nor containers.
var ErrNotCode = errors.New("neither an ELF file nor a static archive nor a file of GPU code")

// Read lists the containers of the size bytes at r, which begin with head: 4096 of them, or
// all. It returns ErrNotCode, an [elfimage.FormatError] where headers contradict the file's
// size, and the reader's error. A container that is damaged is listed, with what is wrong.
func Read(r io.ReaderAt, size int64, head []byte) (*File, error) {
	s := scan{r: r}
	var err error
	switch {
	case !IsFile(head):
		return nil, ErrNotCode
	case strings.HasPrefix(string(head[:4]), magicBytes):
		err = s.search(span{size: uint64(size), own: true})
	case bytes.HasPrefix(head, []byte(bundleMagic)), bytes.HasPrefix(head, []byte(packedMagic)):
		err = s.bundles(span{size: uint64(size)})
	case head[0] == archiveMagic[0]:
		err = s.archive(uint64(size))
	default:
		err = s.elf(r, 0, size, head)
	}
	if err != nil {
		return nil, err
	}
	for i, n := 0, 0; i < len(s.file.Containers); i++ {
		end := n + s.counts[i]
		s.file.Containers[i].Entries = s.entries[n:end:end]
		n = end
	}
	return &s.file, nil
}

// scan is a file that is being read.
type scan struct {
	r       io.ReaderAt
	file    File
	entries []Entry // of all containers
	counts  []int   // of each container
	objects int     // bundles and code objects
	header  [containerHeader + entryHeader]byte
	cubin   [smallCubin]byte
}

// span is a part of the file in which containers are looked for.
type span struct {
	section     string
	off, size   uint64
	own         bool            // it is for containers alone
	relocatable bool            // what is in it is relocatable device code of a linked file
	holes       *elfimage.Image // tells the file's holes, which read as zeros; or nil
}

// archive reads the members of a static archive (ar(5)): each is an object, but for the
// tables of symbols and of long names.
func (s *scan) archive(size uint64) error {
	var header [memberHeader]byte
	space := make([]byte, elfimage.HeadSize)
	for at := uint64(len(archiveMagic)); at+memberHeader <= size; {
		if err := elfimage.ReadFull(s.r, header[:], at); err != nil {
			return err
		}
		n, err := strconv.ParseUint(strings.TrimRight(string(header[48:58]), " "), 10, 64)
		start := at + memberHeader
		if err != nil || string(header[58:]) != "`\n" || n > size-start {
			return elfimage.Malformed(at,
				"the archive has a member with a broken header, or one that ends after the archive")
		}
		head := space[:min(n, elfimage.HeadSize)]
		if err := elfimage.ReadFull(s.r, head, start); err != nil {
			return err
		}
		if strings.HasPrefix(string(head[:min(len(head), 4)]), elf.ELFMAG) {
			err := s.elf(io.NewSectionReader(s.r, int64(start), int64(n)), start, int64(n), head)
			var format *elfimage.FormatError
			if errors.As(err, &format) && format.Off < int64(start) {
				format.Off += int64(start)
			}
			if err != nil {
				return err
			}
		}
		at = start + n + n%2
	}
	return nil
}

// elf reads the ELF file of size bytes at r, which are base bytes into the file.
func (s *scan) elf(r io.ReaderAt, base uint64, size int64, head []byte) error {
	im, err := elfimage.ParseSections(r, size, head)
	if err != nil {
		return err
	}
	defer im.Release()
	if im.Machine == elf.EM_AMDGPU {
		return s.object(im, base, uint64(size))
	}
	var spans []span
	switch linked := im.Type == elf.ET_EXEC || im.Type == elf.ET_DYN; {
	case !linked && im.Type != elf.ET_REL:
		return nil
	case linked && len(im.Sections) == 0:
		s.file.Sectionless = true
		for i := range im.Progs {
			if p := &im.Progs[i]; p.Type == elf.PT_LOAD {
				spans = append(spans, span{off: p.Off, size: p.Filesz})
			}
		}
	default:
		if spans, err = sectionSpans(im, linked); err != nil {
			return err
		}
	}
	for _, p := range bundleSpans(im) {
		p.off += base
		if err := s.bundles(p); err != nil {
			return err
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	done := uint64(0)
	for _, p := range spans {
		end := min(p.off+min(p.size, uint64(size)), uint64(size))
		if p.off = max(p.off, done); p.off >= end { // what lies in two is searched once
			continue
		}
		p.off, p.size, done = p.off+base, end-p.off, end
		if base == 0 {
			p.holes = im
		}
		if err := s.search(p); err != nil {
			return err
		}
	}
	return nil
}

// sectionSpans returns the sections of an ELF file that may have containers, or an error where one ends after the file.
func sectionSpans(im *elfimage.Image, linked bool) (spans []span, err error) {
	nvcc := !linked // in an archive, an array of containers need not stand beside anything of nvcc's
	for i := range im.Sections {
		sec := &im.Sections[i]
		if sec.Type != elf.SHT_PROGBITS || sec.Flags&elf.SHF_ALLOC == 0 || sec.Flags&elf.SHF_EXECINSTR != 0 {
			continue
		}
		if err == nil {
			err = im.SectionInFile(i)
		}
		p := span{section: sectionName(im, sec), off: sec.Off, size: sec.Size}
		switch p.section {
		case ".nv_fatbin":
			p.own, nvcc = true, true
		case "__nv_relfatbin":
			p.own, p.relocatable, nvcc = true, linked, true
		case ".nvFatBinSegment":
			nvcc = true
			continue
		case bundleSection, ".eh_frame", ".eh_frame_hdr", ".gcc_except_table", ".interp":
			continue
		}
		if p.own || p.size >= containerHeader+entryHeader {
			spans = append(spans, p)
		}
	}
	if !nvcc {
		return nil, nil
	}
	return spans, err
}

// sectionName returns a section's name, or the first bytes of a long one.
func sectionName(im *elfimage.Image, sec *elfimage.Section) string {
	if int(im.Shstrndx) >= len(im.Sections) {
		return ""
	}
	names := &im.Sections[im.Shstrndx]
	if uint64(sec.NameOff) >= names.Size {
		return ""
	}
	var b [64]byte
	name := b[:min(uint64(len(b)), names.Size-uint64(sec.NameOff))]
	if elfimage.ReadFull(im, name, names.Off+uint64(sec.NameOff)) != nil {
		return ""
	}
	name, _, _ = bytes.Cut(name, []byte{0})
	return string(name)
}

// search lists the containers of a part of the file. They begin at multiples of 8 bytes.
func (s *scan) search(p span) error {
	end := p.off + p.size
	for at := p.off; at < end && end-at >= containerHeader; {
		next, err := s.container(p, at, end)
		if err == nil && next == at {
			next, err = s.nextMagic(p, at, end)
		}
		if err != nil {
			return err
		}
		at = p.off + (next-p.off+7)&^7
	}
	return nil
}

// container reads the container at an offset, and returns the offset from which on there may
// be another; at, where there is none.
func (s *scan) container(p span, at, end uint64) (next uint64, err error) {
	b := s.header[:min(uint64(len(s.header)), end-at)]
	if err := elfimage.ReadFull(s.r, b, at); err != nil {
		return at, err
	}
	if n := indexMagic(b); n != 0 {
		return at + uint64(max(n, 0)), nil // rows of containers have some zeros between them
	}
	le := binary.LittleEndian
	version, header, size := le.Uint16(b[4:]), uint64(le.Uint16(b[6:])), le.Uint64(b[8:])
	c := Container{Section: p.section, Off: at, Relocatable: p.relocatable, Resource: !p.own && !s.file.Sectionless}
	first := len(s.entries)
	switch {
	case version != 1 || header < containerHeader:
		c.Damage = elfimage.Malformed(at, "a container of version %d with a header of %d bytes, which is not known",
			version, header)
		next = at + containerHeader
	case header > end-at || size > end-at-header:
		c.Damage = elfimage.Malformed(at, "a container of %d bytes is cut off after %d", size, end-at)
		next = at + containerHeader
	default:
		c.Size = header + size
		if next, c.Damage, err = s.list(at+header, at+c.Size, b, at); err != nil {
			return at, err
		}
		if p.own {
			next = at + c.Size
		}
		if marked, err := s.mark(s.entries[first:], &c); err != nil || marked {
			s.entries = s.entries[:first]
			return at + c.Size, err
		}
	}
	if c.Damage != nil {
		s.entries = s.entries[:first]
	}
	if !p.own && len(s.entries) == first && size > 0 { // bytes that happen to be the magic
		return next, nil
	}
	s.file.Containers, s.counts = append(s.file.Containers, c), append(s.counts, len(s.entries)-first)
	if len(s.file.Containers)+len(s.entries) > maxEntries {
		return at, elfimage.Malformed(at, "more than %d containers and entries of GPU code", maxEntries)
	}
	return next, nil
}

// mark reads a mark, where a container is one.
func (s *scan) mark(entries []Entry, c *Container) (bool, error) {
	if len(entries) != 1 || entries[0].Kind != kindMark || entries[0].Size > maxMark || c.Damage != nil {
		return false, nil
	}
	text := make([]byte, entries[0].Size)
	if err := elfimage.ReadFull(s.r, text, entries[0].Off+uint64(entries[0].Header)); err != nil {
		return false, err
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	list, ok := strings.CutPrefix(string(text), markText)
	targets, err := ParseTargets(list)
	if !ok || err != nil || len(s.file.Marks) >= maxEntries {
		return false, nil //nolint:nilerr // then it is none
	}
	s.file.Marks = append(s.file.Marks, Mark{join(targets), c.Off, c.Size})
	return true, nil
}

// list reads the entries of a container between two offsets, and returns how far it came; b
// is what has been read of the file from the offset base on.
func (s *scan) list(at, end uint64, b []byte, base uint64) (reached uint64, damage, err error) {
	var own [entryHeader]byte
	for at < end {
		if end-at < entryHeader {
			return at, elfimage.Malformed(at, "%d bytes at the end of a container are not an entry", end-at), nil
		}
		head := own[:]
		if at-base+entryHeader <= uint64(len(b)) {
			head = b[at-base:]
		} else if err := elfimage.ReadFull(s.r, head, at); err != nil {
			return at, nil, err
		}
		e, known := decodeEntry(head, at)
		switch {
		case !known:
			return at, elfimage.Malformed(at, "an entry of an unknown form"), nil
		case e.Header < entryHeader || uint64(e.Header) > end-at || e.Size > end-at-uint64(e.Header):
			return at, elfimage.Malformed(at, "an entry with a header of %d and code of %d bytes is cut off after %d",
				e.Header, e.Size, end-at), nil
		case len(s.entries) >= maxEntries:
			return at, elfimage.Malformed(at, "more than %d entries of GPU code", maxEntries), nil
		}
		if e.Kernelless, err = e.kernelless(s.r, &s.cubin); err != nil {
			return at, nil, err
		}
		s.entries = append(s.entries, e)
		at += e.Bytes()
	}
	return at, nil, nil
}

// indexMagic returns the first multiple of 8 at which a container's magic is, or -1.
func indexMagic(b []byte) int {
	for n := 0; ; n++ {
		i := bytes.Index(b[n:], []byte(magicBytes))
		if i < 0 {
			return -1
		}
		if n += i; n%8 == 0 {
			return n
		}
	}
}

// block is memory for the search.
var block = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// nextMagic returns the offset of the next container's magic behind at, where there is none,
// and before end; end where there is no more.
func (s *scan) nextMagic(p span, at, end uint64) (uint64, error) {
	buf := block.Get().(*[128 << 10]byte)
	defer block.Put(buf)
	for from := at + 8; from < end && end-from >= containerHeader; {
		if p.holes != nil {
			if data := p.holes.NextData(from); data >= from+8 {
				from += (data - from) &^ 7
				continue
			}
		}
		b := buf[:min(uint64(len(buf)), end-from)]
		if err := elfimage.ReadFull(s.r, b, from); err != nil {
			return at, err
		}
		if n := indexMagic(b); n >= 0 {
			return from + uint64(n), nil
		}
		from += uint64(len(b)) &^ 7
	}
	return end, nil
}
