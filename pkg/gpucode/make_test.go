package gpucode

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
)

// piece is an entry to be made.
type piece struct {
	kind     Kind
	arch     uint32
	flags    uint64
	isa      Version
	code     int    // bytes as they are in the file
	unpacked uint64 // 0: not compressed
	extra    int    // bytes of the header behind the first 64
	data     []byte // the code; nil: fillers
}

func cubin(arch uint32) piece { return piece{kind: Cubin, arch: arch, isa: Version{1, 7}, code: 4000} }
func stub(arch uint32) piece  { return piece{kind: Cubin, arch: arch, isa: Version{1, 7}, code: 872} }
func ptx(arch uint32, major, minor uint16) piece {
	return piece{kind: PTX, arch: arch, isa: Version{major, minor}, code: 701, unpacked: 5000, flags: 0x8011, extra: 16}
}

// linkedStub is what the device linker of CUDA 13 leaves where there is nothing to link: an ELF file without
// instructions. kernel is the smallest one with some.
func linkedStub(arch uint32) piece { return raw(arch, 1904, 0) }
func kernel(arch uint32) piece     { return raw(arch, 2856, 256) }

// raw is a cubin of a size that is not compressed, with a number of bytes of instructions.
func raw(arch uint32, size, instructions int) piece {
	f := form{elf.ELFCLASS64, binary.LittleEndian, 190, elf.ET_EXEC} // EM_CUDA
	parts := []part{{".nv.info", make([]byte, 16)}, {".text.k", make([]byte, instructions)}}
	data := f.image(parts...)
	if len(data) > size {
		panic("larger than asked")
	}
	return piece{kind: Cubin, arch: arch, isa: Version{1, 8}, code: size, data: append(data, make([]byte, size-len(data))...)}
}

func (p piece) a() piece { p.flags |= 1 << 20; return p }
func (p piece) f() piece { p.flags |= 1 << 21; return p }

// filler is what code is made of: no byte of it is to be read.
const filler = 0xAA

// container makes a container, and returns its bytes and where in them the code is.
func container(pieces ...piece) (b []byte, code [][2]int) {
	le := binary.LittleEndian
	for _, p := range pieces {
		h := make([]byte, 64+p.extra)
		padded := (p.code + 7) &^ 7
		le.PutUint16(h, uint16(p.kind))
		le.PutUint16(h[2:], 0x0101)
		le.PutUint32(h[4:], uint32(len(h)))
		le.PutUint64(h[8:], uint64(padded))
		le.PutUint16(h[24:], p.isa.Minor)
		le.PutUint16(h[26:], p.isa.Major)
		le.PutUint32(h[28:], p.arch)
		le.PutUint64(h[40:], p.flags)
		if p.unpacked > 0 {
			le.PutUint32(h[16:], uint32(p.code))
			le.PutUint64(h[56:], p.unpacked)
		}
		b = append(b, h...)
		code = append(code, [2]int{16 + len(b), 16 + len(b) + padded})
		b = append(b, append(p.data[:len(p.data):len(p.data)], bytes.Repeat([]byte{filler}, padded-len(p.data))...)...)
	}
	head := make([]byte, 16)
	le.PutUint32(head, 0xBA55ED50)
	le.PutUint16(head[4:], 1)
	le.PutUint16(head[6:], 16)
	le.PutUint64(head[8:], uint64(len(b)))
	return append(head, b...), code
}

// row makes some containers, one behind the other.
func row(containers ...[]piece) (b []byte) {
	for _, c := range containers {
		made, _ := container(c...)
		b = append(b, made...)
	}
	return b
}

// part is a section to be made.
type part struct {
	name string
	data []byte
}

type form struct {
	class   elf.Class
	order   binary.ByteOrder
	machine elf.Machine
	typ     elf.Type
}

var x86 = form{elf.ELFCLASS64, binary.LittleEndian, elf.EM_X86_64, elf.ET_DYN}

// image makes an ELF file with some sections, and a segment that has them all.
func (f form) image(parts ...part) []byte {
	wide := f.class == elf.ELFCLASS64
	var b bytes.Buffer
	num := func(v uint64, size int) {
		raw := make([]byte, 8)
		switch size {
		case 2:
			f.order.PutUint16(raw, uint16(v))
		case 4:
			f.order.PutUint32(raw, uint32(v))
		default:
			f.order.PutUint64(raw, v)
		}
		b.Write(raw[:size])
	}
	word, ehsize, phsize, shsize := 8, 64, 56, 64
	if !wide {
		word, ehsize, phsize, shsize = 4, 52, 32, 40
	}
	phnum := 1
	if f.typ == elf.ET_REL {
		phnum = 0
	}
	names := "\x00"
	at := (ehsize + phnum*phsize + 15) &^ 15
	type placed struct{ name, off, size int }
	var sections []placed
	var data []byte
	for _, p := range append(parts, part{name: ".shstrtab"}) {
		if p.name == ".shstrtab" {
			p.data = []byte(names + ".shstrtab\x00")
		}
		sections = append(sections, placed{len(names), at + len(data), len(p.data)})
		names += p.name + "\x00"
		data = append(data, p.data...)
		for len(data)%16 != 0 {
			data = append(data, 0)
		}
	}
	data1 := byte(elf.ELFDATA2LSB)
	if f.order == binary.BigEndian {
		data1 = byte(elf.ELFDATA2MSB)
	}
	b.Write([]byte{0x7f, 'E', 'L', 'F', byte(f.class), data1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	num(uint64(f.typ), 2)
	num(uint64(f.machine), 2)
	num(1, 4)
	num(0, word)
	num(uint64(ehsize)*uint64(phnum), word)
	num(uint64(at+len(data)), word)
	num(0, 4)
	for _, v := range []int{ehsize, phsize, phnum, shsize, len(sections) + 1, len(sections)} {
		num(uint64(v), 2)
	}
	if phnum > 0 {
		num(uint64(elf.PT_LOAD), 4)
		if wide {
			num(uint64(elf.PF_R), 4)
		}
		num(0, word)
		num(0, word)
		num(0, word)
		num(uint64(at+len(data)), word)
		num(uint64(at+len(data)), word)
		if !wide {
			num(uint64(elf.PF_R), 4)
		}
		num(4096, word)
	}
	for b.Len() < at {
		b.WriteByte(0)
	}
	b.Write(data)
	b.Write(make([]byte, shsize))
	for i, s := range sections {
		flags, typ := uint64(elf.SHF_ALLOC), elf.SHT_PROGBITS
		switch {
		case i == len(sections)-1:
			flags, typ = 0, elf.SHT_STRTAB
		case strings.HasPrefix(parts[i].name, ".text"):
			flags |= uint64(elf.SHF_EXECINSTR)
		}
		num(uint64(s.name), 4)
		num(uint64(typ), 4)
		num(flags, word)
		num(uint64(s.off), word)
		num(uint64(s.off), word)
		num(uint64(s.size), word)
		num(0, 4)
		num(0, 4)
		num(8, word)
		num(0, word)
	}
	return b.Bytes()
}

// archive makes a static archive (ar(5)), with the names in GNU's form.
func archive(members ...part) []byte {
	var long string
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	put := func(name string, data []byte) {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, 0, 0, 0, 0o644, len(data))
		b.Write(data)
		if len(data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	put("/", []byte{0, 0, 0, 0})
	for _, m := range members {
		if len(m.name) > 15 {
			long += m.name + "/\n"
		}
	}
	put("//", []byte(long))
	for _, m := range members {
		if len(m.name) > 15 {
			put(fmt.Sprintf("/%d", bytes.Index([]byte(long), []byte(m.name))), m.data)
		} else {
			put(m.name+"/", m.data)
		}
	}
	return b.Bytes()
}

// read is Read of bytes.
func read(b []byte) (*File, error) {
	return Read(bytes.NewReader(b), int64(len(b)), b[:min(len(b), 4096)])
}

// text is what there is in a file, in a line.
func text(f *File) string {
	var b bytes.Buffer
	for _, c := range f.Containers {
		fmt.Fprintf(&b, "%s", c.Section)
		if c.Relocatable {
			b.WriteString(" relocatable")
		}
		if c.Resource {
			b.WriteString(" resource")
		}
		if c.Damage != nil {
			fmt.Fprintf(&b, " damaged: %v", c.Damage)
		}
		for _, e := range c.Entries {
			b.WriteString(" " + e.Name())
			if e.Kind == PTX {
				b.WriteString("/" + e.Version.String())
			}
		}
		b.WriteString("; ")
	}
	return b.String()
}
