package gpucode

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
)

// Kind says what the code of an entry is.
type Kind uint16

// The kinds that are known. cuobjdump calls the last one nvvm code.
const (
	PTX   Kind = 1
	Cubin Kind = 2
	LTO   Kind = 8
	// Object is a code object of AMD's, which is in no container.
	Object Kind = 0x2000
)

func (k Kind) String() string {
	switch k {
	case PTX:
		return "PTX"
	case Cubin:
		return "cubin"
	case LTO:
		return "LTO-IR"
	case Object:
		return "code object"
	}
	return fmt.Sprintf("kind %#x", uint16(k))
}

// Entry is the code for one architecture in a container.
type Entry struct {
	Kind Kind
	Arch
	// Version is the PTX ISA of PTX, else the version of the cubin's or LTO-IR's form.
	Version Version
	Off     uint64 // of its header, in the file
	Header  uint32 // size of its header, in bytes
	Size    uint64 // of the code as it is in the file, in bytes, with padding
	// Unpacked is the size of the code in bytes, as it is used.
	Unpacked uint64
	Flags    uint64
	// Kernelless says that it is a cubin without instructions. nvcc links one into every
	// program, for relocatable device code that is not there.
	Kernelless bool
}

// Bytes returns what the entry takes in the file.
func (e *Entry) Bytes() uint64 { return uint64(e.Header) + e.Size }

// Name returns what nvcc calls the entry's architecture: sm_90a for a cubin, compute_90 for PTX.
func (e *Entry) Name() string {
	switch e.Kind {
	case PTX:
		return "compute_" + e.digits()
	case LTO:
		return "lto_" + e.digits()
	}
	return "sm_" + e.digits()
}

// Container is a container of GPU code: one translation unit's, or the device linker's.
type Container struct {
	Section string // that it is in; "" where the file has none
	Off     uint64 // in the file
	Size    uint64 // in bytes, with its header
	Entries []Entry
	// Relocatable says that it is relocatable device code in a linked file: the driver links
	// it again where the cubin that the device linker made is not for the GPU.
	Relocatable bool
	// Resource says that the library's own code loads it, where it has a use for it: it is
	// outside the sections that nvcc makes, and no start of the program registers it.
	Resource bool
	// Damage says why it cannot be read to its end, or is nil; then there are no entries.
	Damage error
}

// has reports whether the container has code of a kind.
func (c *Container) has(k Kind) bool {
	return slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Kind == k })
}

// HasKernels reports whether the container has anything that a program can start.
func (c *Container) HasKernels() bool {
	return slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Kind == Cubin && !e.Kernelless }) ||
		len(c.Entries) > 0 && !c.has(Cubin)
}

// The format, by the bytes; integers are little-endian whatever the file is. A container is
// u32 magic, u16 version, u16 header size, u64 size of what follows: its entries, one behind
// the other. An entry is u16 kind, u16 version, u32 header size, u64 size of the code with
// padding; at 16 u32 its size without, 0 where it is not compressed; at 24 u16 minor and u16
// major version; at 28 u32 architecture; at 40 u64 flags; at 56 u64 unpacked size. Behind
// that come names and options, as the header size says.
const (
	magic           = 0xBA55ED50
	containerHeader = 16
	entryHeader     = 64 // at least
	entryVersion    = 0x0101

	flag64       = 1
	flagLinux    = 1 << 4
	flagLZ4      = 1 << 13 // compressed
	flagZstd     = 1 << 15 // compressed, by CUDA 12.8 and later
	flagSpecific = 1 << 20 // the a of sm_90a
	flagFamily   = 1 << 21 // the f of sm_100f
)

// Mark is what "runpath thin" leaves in a file from which it has taken code: behind a container
// one of its own, with one entry, of a kind that nothing else has, and in that the GPUs that code
// was left for. cuobjdump passes over it (11.8 and 13.0 do; text between containers they refuse,
// and 13.0 a longer header), and no program knows of it.
type Mark struct {
	GPUs string // as Target.String writes them, separated by commas
	Off  uint64 // in the file
	Size uint64 // in bytes
}

const (
	kindMark Kind = 0x1000
	// markText is what the entry's content begins with; it ends with a zero.
	markText = "runpath thin "
	// maxMark bounds a mark's content in bytes.
	maxMark = 1024
)

// join writes a list of targets as ParseTargets reads it.
func join(targets []Target) string {
	list := make([]string, 0, len(targets))
	for _, t := range targets {
		list = append(list, t.String())
	}
	return strings.Join(list, ",")
}

// NewMark returns a mark's bytes; nil where there is no room for so many GPUs, or none are named.
func NewMark(targets []Target) []byte {
	text := markText + join(targets) + "\x00"
	text += strings.Repeat("\x00", -len(text)&7)
	if len(targets) == 0 || len(text) > maxMark {
		return nil
	}
	const head = containerHeader + entryHeader
	le, b := binary.LittleEndian, append(make([]byte, head), text...)
	le.PutUint32(b, magic)
	le.PutUint16(b[4:], 1)
	le.PutUint16(b[6:], containerHeader)
	le.PutUint64(b[8:], uint64(len(b)-containerHeader))
	e := b[containerHeader:]
	le.PutUint16(e, uint16(kindMark))
	le.PutUint16(e[2:], entryVersion)
	le.PutUint32(e[4:], entryHeader)
	le.PutUint64(e[8:], uint64(len(text)))
	le.PutUint16(e[24:], 7) // a cubin's version and architecture, which cuobjdump asks for
	le.PutUint16(e[26:], 1)
	le.PutUint32(e[28:], uint32(targets[0].Capability))
	le.PutUint64(e[40:], flag64|flagLinux)
	return b
}

// magicBytes are the first bytes of a container.
const magicBytes = "\x50\xED\x55\xBA"

// decodeEntry decodes the first entryHeader bytes of an entry at off.
func decodeEntry(b []byte, off uint64) (e Entry, known bool) {
	le := binary.LittleEndian
	e = Entry{Kind: Kind(le.Uint16(b)), Off: off, Header: le.Uint32(b[4:]), Size: le.Uint64(b[8:]),
		Version: Version{Major: le.Uint16(b[26:]), Minor: le.Uint16(b[24:])},
		Arch:    Arch{Capability: Capability(le.Uint32(b[28:]))}, Flags: le.Uint64(b[40:])}
	switch {
	case e.Flags&flagSpecific != 0:
		e.Variant = Specific
	case e.Flags&flagFamily != 0:
		e.Variant = Family
	}
	if e.Unpacked = le.Uint64(b[56:]); e.Unpacked == 0 {
		e.Unpacked = e.Size
	}
	return e, le.Uint16(b[2:]) == entryVersion
}

// toolInfo is the section of a cubin in which ptxas and nvlink of CUDA 12.8 and later note their
// command lines, nvlink's with each -L of nvcc's.
const toolInfo = ".note.nv.tkinfo"

// Span is a part of the file.
type Span struct{ Off, End uint64 }

// Options returns where in the file at r, in which the entry was found, the options stand with
// which it was made: behind its header's first bytes, and in a cubin that is not compressed where
// the tools note them.
func (e *Entry) Options(r io.ReaderAt) (spans []Span, err error) {
	if e.Header > entryHeader {
		spans = append(spans, Span{e.Off + entryHeader, e.Off + uint64(e.Header)})
	}
	if e.Kind != Cubin || e.Flags&(flagLZ4|flagZstd) != 0 {
		return spans, nil
	}
	code := io.NewSectionReader(r, int64(e.Off)+int64(e.Header), int64(e.Size))
	head := make([]byte, min(e.Size, elfimage.HeadSize))
	if err := elfimage.ReadFull(code, head, 0); err != nil {
		return nil, err
	}
	im, err := elfimage.ParseSections(code, int64(e.Size), head)
	if err != nil {
		return spans, nil //nolint:nilerr // it is no ELF file that can be read
	}
	defer im.Release()
	for i := range im.Sections {
		if s := &im.Sections[i]; s.Type == elf.SHT_NOTE && s.Off <= e.Size && s.Size <= e.Size-s.Off &&
			sectionName(im, s) == toolInfo {
			spans = append(spans, Span{e.Off + uint64(e.Header) + s.Off, e.Off + uint64(e.Header) + s.Off + s.Size})
		}
	}
	return spans, nil
}

// smallCubin is the size in bytes up to which a cubin may be one without instructions. One
// that is not compressed says so itself; those of CUDA 13's libraries have up to 2280 bytes.
const smallCubin = 4096

// kernelless reports whether a cubin has no instructions. Of a compressed one only the size
// is known: the linker's own have 840 to 1,448 bytes in CUDA 11.8 and 12.4, and up to 2,568
// in CUDA 13; the smallest kernels, empty ones, have 1,896 and 2,856.
func (e *Entry) kernelless(r io.ReaderAt, b *[smallCubin]byte) (bool, error) {
	switch {
	case e.Kind != Cubin || e.Unpacked > smallCubin:
		return false, nil
	case e.Flags&flagZstd != 0:
		return e.Unpacked <= 2700, nil
	case e.Unpacked != e.Size:
		return e.Unpacked <= 1600, nil
	}
	code := b[:e.Size]
	if err := elfimage.ReadFull(r, code, e.Off+uint64(e.Header)); err != nil {
		return false, err
	}
	im, err := elfimage.ParseSections(bytes.NewReader(code), int64(len(code)), code)
	if err != nil {
		return e.Size <= 1600, nil //nolint:nilerr // it is no ELF file that can be read
	}
	defer im.Release()
	return !slices.ContainsFunc(im.Sections, func(s elfimage.Section) bool {
		return s.Flags&elf.SHF_EXECINSTR != 0 && s.Size > 0
	}), nil
}
