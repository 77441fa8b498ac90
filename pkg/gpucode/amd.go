package gpucode

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
)

// Bundle is a bundle of code objects for AMD's GPUs: a translation unit's, one object a GPU.
type Bundle struct {
	Section string // that it is in; "" where the file has none
	Off     uint64 // in the file
	Size    uint64 // in bytes, with its header
	// Unpacked is its size in bytes as it is used, and 0 where it is not compressed.
	Unpacked uint64
	Objects  []CodeObject
	// Damage says why its table cannot be read, or is nil; then there are no objects.
	Damage error
}

// CodeObject is the code for one GPU in a bundle.
type CodeObject struct {
	AMD  AMD
	Size uint64 // in bytes, unpacked
}

// AMD is the GPU that code of AMD's is for, a target ID of LLVM's (AMDGPUUsage, "Target ID"): gfx90a:xnack+,
// gfx11-generic.
type AMD string

// spirv is what clang calls code that the driver compiles for any GPU of AMD's.
const spirv AMD = "amdgcnspirv"

// ParseAMD reads a target ID.
func ParseAMD(s string) (AMD, bool) {
	processor, features, some := strings.Cut(s, ":")
	number, isGFX := strings.CutPrefix(processor, "gfx")
	if !isGFX || number == "" || strings.Trim(strings.TrimSuffix(number, "-generic"), "0123456789abcdef-") != "" {
		return "", false
	}
	for _, f := range strings.Split(features, ":") {
		if some && !slices.Contains([]string{"xnack+", "xnack-", "sramecc+", "sramecc-"}, f) {
			return "", false
		}
	}
	return AMD(s), true
}

// families are the processors of the generic ones (AMDGPUUsage, "Generic Processors").
var families = map[string][]string{
	"gfx9-generic":    {"gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"},
	"gfx9-4-generic":  {"gfx940", "gfx941", "gfx942", "gfx950"},
	"gfx10-1-generic": {"gfx1010", "gfx1011", "gfx1012", "gfx1013"},
	"gfx10-3-generic": {"gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"},
	"gfx11-generic":   {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"},
	"gfx12-generic":   {"gfx1200", "gfx1201"},
}

// KnownGPUs returns the GPUs that had names when this was written, in order: NVIDIA's compute capabilities, and AMD's
// processors that clang builds for.
func KnownGPUs() (nvidia []Capability, amd []AMD) {
	amd = []AMD{"gfx803", "gfx908", "gfx90a"} // of no family
	for _, family := range families {
		for _, p := range family {
			amd = append(amd, AMD(p))
		}
	}
	slices.SortFunc(amd, AMD.Compare)
	return slices.Clone(known[:]), amd
}

// RunsOn reports whether code runs on a GPU. A feature that one of them leaves open may be on or off: code for gfx90a
// runs with xnack+ and xnack-, and of a gfx90a nobody said which it is set to (HSA_XNACK).
func (a AMD) RunsOn(gpu AMD) bool {
	code, features, _ := strings.Cut(string(a), ":")
	processor, settings, _ := strings.Cut(string(gpu), ":")
	if code != processor && !slices.Contains(families[code], processor) {
		return false
	}
	for _, f := range strings.Split(features, ":") {
		for _, s := range strings.Split(settings, ":") {
			if f != "" && s != "" && f != s && f[:len(f)-1] == s[:len(s)-1] {
				return false
			}
		}
	}
	return true
}

// Compare orders processors by their numbers.
func (a AMD) Compare(b AMD) int {
	x, _, _ := strings.Cut(string(a), ":")
	y, _, _ := strings.Cut(string(b), ":")
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(string(a), string(b)))
}

// amdOf returns the GPU that the ID of a bundle's entry names: hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+. The host's has
// none.
func amdOf(id string) (AMD, bool) {
	if strings.HasSuffix(id, "-"+string(spirv)) {
		return spirv, true
	}
	i := strings.Index(id, "-gfx")
	if i < 0 || strings.HasPrefix(id, "host-") {
		return "", false
	}
	return ParseAMD(id[i+1:])
}

// on returns what a GPU takes of a bundle.
func (b *Bundle) on(gpu AMD) Outcome {
	best := NoCode
	for _, o := range b.Objects {
		switch {
		case o.AMD.RunsOn(gpu):
			return Native
		case o.AMD == spirv:
			best = Compiled
		}
	}
	return best
}

// JudgeAMD says what a GPU takes of the file's bundles. As of containers, one without code is no error where the others
// have some: libraries have kernels for some GPUs alone.
func (f *File) JudgeAMD(gpu AMD) (j Judgement) {
	for i := range f.Bundles {
		if b := &f.Bundles[i]; len(b.Objects) > 0 {
			j.Containers[b.on(gpu)]++
		}
	}
	if 2*j.Containers[NoCode] > j.Total() {
		j.Error = ErrNoBinaryForGPU // hip_runtime_api.h: hipErrorNoBinaryForGpu, of the same number
	}
	return j
}

// AMDs returns the GPUs that the file's bundles have code for, each once, in their order.
func (f *File) AMDs() (all []AMD) {
	for _, b := range f.Bundles {
		for _, o := range b.Objects {
			if !slices.Contains(all, o.AMD) {
				all = append(all, o.AMD)
			}
		}
	}
	slices.SortFunc(all, AMD.Compare)
	return all
}

// The format (clang/docs/ClangOffloadBundler.rst, "Bundled Binary File Layout"; clang/lib/Driver/OffloadBundler.cpp for
// what is compressed), little-endian: 24 bytes of magic, u64 number of entries; of each u64 offset, u64 size, u64
// length of its ID, and the ID. A compressed one has u32 magic, u16 version, u16 method; then version 2 has its own
// size and the size unpacked as u32, version 3 as u64, version 1 the latter alone as u32; then u64 hash. Bundles begin
// at multiples of 4096 bytes.
const (
	bundleMagic   = "__CLANG_OFFLOAD_BUNDLE__"
	packedMagic   = "CCOB"
	bundleSection = ".hip_fatbin"
	methodZlib    = 0
	methodZstd    = 1

	maxTable = 64 << 10 // of a bundle, in bytes: an ID for each of some hundred GPUs
	maxBlock = 128 << 10
)

var errBundle = errors.New("no bundle")

// bundles lists the bundles of a part of the file.
func (s *scan) bundles(p span) error {
	end := p.off + p.size
	for at := p.off; at < end; {
		b, err := s.bundle(at, end)
		if errors.Is(err, errBundle) {
			b.Damage, b.Size = elfimage.Malformed(at, "something other than a bundle of code objects"), 0
		} else if format := (*elfimage.FormatError)(nil); errors.As(err, &format) {
			b.Damage = err
		} else if err != nil {
			return err
		}
		b.Section, b.Off = p.section, at
		if s.objects += 1 + len(b.Objects); s.objects > maxEntries {
			return elfimage.Malformed(at, "more than %d bundles and code objects", maxEntries)
		}
		s.file.Bundles = append(s.file.Bundles, b)
		next := at + b.Size
		if b.Size == 0 { // version 1, or damaged
			if next, err = s.nextBundle(p, at+1, end); err != nil {
				return err
			}
			s.file.Bundles[len(s.file.Bundles)-1].Size = next - at
		}
		if at, err = s.behindZeros(aligned(p, next), end); err != nil {
			return err
		}
	}
	return nil
}

// object lists a code object that is a file of its own (.hsaco, .co), as a bundle of one. For which GPU it is, its
// metadata say since version 4, in MessagePack (AMDGPUUsage, "Code Object V4 Metadata"): "amdhsa.target" and a string.
func (s *scan) object(im *elfimage.Image, base, size uint64) error {
	const owner, metadata, key = "AMDGPU", 32, "\xadamdhsa.target"
	if im.Type != elf.ET_DYN { // what a linker takes
		return nil
	}
	b := Bundle{Off: base, Size: size, Damage: elfimage.Malformed(base,
		"a code object that does not name its GPU")}
	notes, err := im.NoteDescriptors(owner, metadata)
	if err != nil {
		return err
	}
	for _, note := range notes {
		_, text, found := bytes.Cut(note, []byte(key))
		if !found || len(text) < 2 {
			continue
		}
		n := int(text[0] &^ 0xe0) // fixstr
		if text = text[1:]; note[len(note)-len(text)-1] == 0xd9 {
			n, text = int(text[0]), text[1:]
		}
		if gpu, ok := amdOf(string(text[:min(n, len(text))])); ok {
			b.Objects, b.Damage = []CodeObject{{gpu, size}}, nil
			break
		}
	}
	s.objects += 2
	s.file.Bundles = append(s.file.Bundles, b)
	return nil
}

// bundle reads the table of the bundle at an offset. Its size is 0 where its header does not tell it.
func (s *scan) bundle(at, end uint64) (b Bundle, err error) {
	var head [32]byte
	have := head[:min(uint64(len(head)), end-at)]
	if err := elfimage.ReadFull(s.r, have, at); err != nil {
		return b, err
	}
	if bytes.HasPrefix(have, []byte(bundleMagic)) {
		table := make([]byte, min(maxTable, end-at))
		if err := elfimage.ReadFull(s.r, table, at); err != nil {
			return b, err
		}
		size, err := b.list(table, at)
		if err == nil && size > end-at {
			err = elfimage.Malformed(at, "a bundle of %d bytes is cut off after %d", size, end-at)
			b.Objects = nil
		}
		b.Size = min(size, end-at)
		return b, err
	}
	le := binary.LittleEndian
	if !bytes.HasPrefix(have, []byte(packedMagic)) || len(have) < 20 {
		return b, errBundle
	}
	version, method := le.Uint16(head[4:]), le.Uint16(head[6:])
	header := uint64(20)
	switch {
	case version == 1:
		b.Unpacked = uint64(le.Uint32(head[8:]))
	case version == 2 && len(have) >= 24:
		header, b.Size, b.Unpacked = 24, uint64(le.Uint32(head[8:])), uint64(le.Uint32(head[12:]))
	case version == 3 && len(have) == 32:
		header, b.Size, b.Unpacked = 32, le.Uint64(head[8:]), le.Uint64(head[16:])
	default:
		return b, elfimage.Malformed(at, "a compressed bundle of unknown version %d", version)
	}
	size := b.Size
	if version > 1 && (size < header || size > end-at) {
		b.Size = 0
		return b, elfimage.Malformed(at, "a compressed bundle of %d bytes is cut off after %d", size, end-at)
	}
	packed := make([]byte, min(maxBlock+64, end-at-header))
	if size > 0 {
		packed = packed[:min(uint64(len(packed)), size-header)]
	}
	if err := elfimage.ReadFull(s.r, packed, at+header); err != nil {
		return b, err
	}
	table, err := unpacked(packed, method)
	if err != nil {
		return b, elfimage.Malformed(at, "a compressed bundle whose table cannot be read: %v", err)
	}
	_, err = b.list(table, at)
	return b, err
}

// list reads a table, and returns how long the bundle is.
func (b *Bundle) list(table []byte, at uint64) (size uint64, err error) {
	le, short := binary.LittleEndian, elfimage.Malformed(at, "a bundle of code objects with a broken table")
	if len(table) < len(bundleMagic)+8 || string(table[:len(bundleMagic)]) != bundleMagic {
		return 0, short
	}
	n, rest := le.Uint64(table[len(bundleMagic):]), table[len(bundleMagic)+8:]
	head := uint64(len(bundleMagic) + 8)
	for range n {
		if len(rest) < 24 {
			b.Objects = nil
			return 0, short
		}
		off, length, id := le.Uint64(rest), le.Uint64(rest[8:]), le.Uint64(rest[16:])
		if id > uint64(len(rest)-24) || off+length < off {
			b.Objects = nil
			return 0, short
		}
		if gpu, ok := amdOf(string(rest[24 : 24+id])); ok {
			b.Objects = append(b.Objects, CodeObject{gpu, length})
		}
		head += 24 + id
		rest, size = rest[24+id:], max(size, head, off+length)
	}
	return max(size, head), nil
}

// unpacked returns the first bytes of what is compressed. Of zstd (RFC 8878) that is the first block, which refers to
// nothing before it: no more memory is needed than for one block, whatever window the frame asks for.
func unpacked(b []byte, method uint16) ([]byte, error) {
	switch method {
	case methodZlib:
		r, err := zlib.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		table := make([]byte, maxTable)
		n, err := io.ReadFull(r, table)
		if n > 0 {
			err = nil
		}
		return table[:n], err
	case methodZstd:
	default:
		return nil, fmt.Errorf("compressed by unknown method %d", method)
	}
	header, err := zstdHeader(b)
	if err != nil {
		return nil, err
	}
	block := b[header:]
	size := 3 + (int(block[0])>>3 | int(block[1])<<5 | int(block[2])<<13)
	if block[0]>>1&3 == 1 { // one byte, repeated
		size = 4
	}
	if size > len(block) {
		return nil, io.ErrUnexpectedEOF
	}
	// A frame of that block alone: no sizes, a window of 128 KiB.
	frame := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3, block[0] | 1}, block[1:size]...)
	return unzstd(frame)
}

// zstdHeader returns the length of the header of a frame that needs no dictionary, behind which a block begins.
func zstdHeader(b []byte) (int, error) {
	broken := errors.New("not a complete zstd frame")
	// a bit that is reserved, a dictionary
	if len(b) < 6 || binary.LittleEndian.Uint32(b) != 0xFD2FB528 || b[4]&0x0b != 0 {
		return 0, broken
	}
	n := 5 + [...]int{0, 2, 4, 8}[b[4]>>6]
	if single := b[4]&0x20 != 0; !single {
		n++
	} else if b[4]>>6 == 0 {
		n++
	}
	if len(b) < n+4 {
		return 0, broken
	}
	return n, nil
}

// unzstd unpacks a frame by the decoder that the standard library has for sections of ELF files alone (debug/elf): as
// one of a file of three sections. Another decoder would be a module that each start pays for.
func unzstd(frame []byte) ([]byte, error) {
	const headers, entry, data = 64, 64, 64 + 3*64
	le := binary.LittleEndian
	section := func(kind elf.SectionType, flags elf.SectionFlag, off, size int) (b []byte) {
		b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, 0), uint32(kind)), uint64(flags))
		b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, 0), uint64(off)), uint64(size))
		return append(b, make([]byte, entry-len(b))...)
	}
	file := make([]byte, headers)
	copy(file, elf.ELFMAG+"\x02\x01\x01")
	le.PutUint16(file[16:], uint16(elf.ET_REL))
	le.PutUint16(file[18:], uint16(elf.EM_X86_64))
	le.PutUint32(file[20:], uint32(elf.EV_CURRENT))
	le.PutUint64(file[40:], headers)
	le.PutUint16(file[52:], headers)
	le.PutUint16(file[58:], entry)
	le.PutUint16(file[60:], 3)
	le.PutUint16(file[62:], 2)
	const compressed = 24 // size of the header of a compressed section
	file = append(file, section(elf.SHT_NULL, 0, 0, 0)...)
	file = append(file, section(elf.SHT_PROGBITS, elf.SHF_COMPRESSED, data, compressed+len(frame))...)
	file = append(file, section(elf.SHT_STRTAB, 0, elf.EI_PAD, 1)...) // names: a zero
	file = le.AppendUint64(file, uint64(elf.COMPRESS_ZSTD))
	file = append(le.AppendUint64(le.AppendUint64(file, maxBlock), 1), frame...)
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	table := make([]byte, maxTable)
	n, err := io.ReadFull(f.Sections[1].Open(), table)
	if n > 0 {
		err = nil
	}
	return table[:n], err
}

// bundleStep is what bundles begin at a multiple of, in a section: clang aligns them.
const bundleStep = 4096

// aligned returns the first place for a bundle from an offset on.
func aligned(p span, at uint64) uint64 { return p.off + (at-p.off+bundleStep-1)&^(bundleStep-1) }

// nextBundle returns where the next bundle begins, end for nowhere.
func (s *scan) nextBundle(p span, at, end uint64) (uint64, error) {
	var b [len(bundleMagic)]byte
	for at = aligned(p, at); at < end; at += bundleStep {
		have := b[:min(uint64(len(b)), end-at)]
		if err := elfimage.ReadFull(s.r, have, at); err != nil {
			return end, err
		}
		packed := len(have) >= 8 && string(have[:4]) == packedMagic && have[4]-1 < 3 && have[5] == 0 && have[6] < 2 &&
			have[7] == 0
		if packed || string(have) == bundleMagic {
			return at, nil
		}
	}
	return end, nil
}

// behindZeros returns the first place for a bundle, from one on, that does not begin with zeros; end for none.
func (s *scan) behindZeros(at, end uint64) (uint64, error) {
	var b [8]byte
	for ; at < end; at += bundleStep {
		have := b[:min(uint64(len(b)), end-at)]
		if err := elfimage.ReadFull(s.r, have, at); err != nil {
			return end, err
		}
		if string(have) != string(make([]byte, len(have))) {
			return at, nil
		}
	}
	return end, nil
}

// bundleSpans returns the sections of an ELF file that have bundles.
func bundleSpans(im *elfimage.Image) (spans []span) {
	for i := range im.Sections {
		sec := &im.Sections[i]
		if sec.Type == elf.SHT_PROGBITS && sectionName(im, sec) == bundleSection && im.SectionInFile(i) == nil {
			spans = append(spans, span{section: bundleSection, off: sec.Off, size: sec.Size})
		}
	}
	return spans
}
