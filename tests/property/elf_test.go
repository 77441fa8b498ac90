package property

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// An elfFile is what the oracle looks at: read here, by program headers alone, and not by the package under test.
type elfFile struct {
	data    []byte
	phoff   uint64
	loads   []elf.Prog64
	dynamic map[elf.DynTag]uint64
	notes   []elf.Prog64
}

// readELF reads a 64-bit little-endian file, which is what this machine's compilers make.
func readELF(path string) (*elfFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &elfFile{data: data, dynamic: map[elf.DynTag]uint64{}}
	var header elf.Header64
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, &header); err != nil {
		return nil, err
	}
	progs := make([]elf.Prog64, header.Phnum)
	f.phoff = header.Phoff
	if header.Phoff > uint64(len(data)) {
		return nil, errors.New("e_phoff is after the end")
	}
	if err := binary.Read(bytes.NewReader(data[header.Phoff:]), binary.LittleEndian, progs); err != nil {
		return nil, err
	}
	for _, p := range progs {
		switch elf.ProgType(p.Type) {
		case elf.PT_LOAD:
			f.loads = append(f.loads, p)
		case elf.PT_NOTE:
			f.notes = append(f.notes, p)
		case elf.PT_DYNAMIC:
			if p.Off+p.Filesz > uint64(len(data)) {
				return nil, errors.New("PT_DYNAMIC is after the end")
			}
			for b := data[p.Off : p.Off+p.Filesz]; len(b) >= 16; b = b[16:] {
				tag := elf.DynTag(binary.LittleEndian.Uint64(b))
				if tag == elf.DT_NULL {
					break
				}
				f.dynamic[tag] = binary.LittleEndian.Uint64(b[8:])
			}
		}
	}
	return f, nil
}

// offset maps an address to a file offset, as mmap of the segments does.
func (f *elfFile) offset(addr uint64) (uint64, bool) {
	for _, p := range f.loads {
		if addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// strings returns the offset and the size of the dynamic string table.
func (f *elfFile) strings() (off, size uint64, err error) {
	addr, size := f.dynamic[elf.DT_STRTAB], f.dynamic[elf.DT_STRSZ]
	for _, p := range f.loads {
		if addr >= p.Vaddr && addr-p.Vaddr+size <= p.Filesz && p.Off+p.Filesz <= uint64(len(f.data)) {
			return addr - p.Vaddr + p.Off, size, nil
		}
	}
	return 0, 0, errors.New("the dynamic string table is in no segment")
}

// damaged says what is wrong with a file that only runs by luck, or nil.
func (f *elfFile) damaged() error {
	for i, p := range f.loads {
		if p.Off+p.Filesz > uint64(len(f.data)) {
			return errors.New("a segment ends after the file")
		}
		if i > 0 && p.Vaddr < f.loads[i-1].Vaddr+f.loads[i-1].Memsz {
			return errors.New("two segments overlap")
		}
	}
	_, _, err := f.strings()
	return err
}

// runPath returns the tag and the text of the run path that the loader goes by; tag 0 where there is none.
func (f *elfFile) runPath() (elf.DynTag, string, error) {
	tag := elf.DT_RUNPATH
	at, ok := f.dynamic[tag]
	if !ok {
		tag = elf.DT_RPATH
		if at, ok = f.dynamic[tag]; !ok {
			return 0, "", nil
		}
	}
	table, size, err := f.strings()
	if err != nil {
		return 0, "", err
	}
	if at >= size {
		return 0, "", fmt.Errorf("the run path is at %d of a string table of %d bytes", at, size)
	}
	text, _, ok := bytes.Cut(f.data[table+at:table+size], []byte{0})
	if !ok {
		return 0, "", errors.New("the run path has no end")
	}
	return tag, string(text), nil
}

// buildID returns the descriptor of the NT_GNU_BUILD_ID note, found by PT_NOTE as debuggers find it in memory; "" without one.
func (f *elfFile) buildID() string {
	for _, p := range f.notes {
		if p.Off+p.Filesz > uint64(len(f.data)) {
			continue
		}
		align := uint64(4)
		if p.Align == 8 {
			align = 8
		}
		up := func(n uint64) uint64 { return (n + align - 1) / align * align }
		for b := f.data[p.Off : p.Off+p.Filesz]; len(b) >= 12; {
			name, desc := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
			kind := binary.LittleEndian.Uint32(b[8:])
			from := up(12 + name)
			if from+desc > uint64(len(b)) {
				break
			}
			if kind == 3 && string(b[12:12+name]) == "GNU\x00" {
				return fmt.Sprintf("%x", b[from:from+desc])
			}
			b = b[min(up(from+desc), uint64(len(b))):]
		}
	}
	return ""
}

// symbolsUnknown reports whether nothing tells how many dynamic symbols there are: no section header, no DT_HASH, and a
// DT_GNU_HASH in which there is none, as a program has that exports nothing.
func (f *elfFile) symbolsUnknown() bool {
	word := binary.LittleEndian.Uint32
	at, ok := f.offset(f.dynamic[elf.DT_GNU_HASH])
	if _, hash := f.dynamic[elf.DT_HASH]; hash || !ok || binary.LittleEndian.Uint64(f.data[40:]) != 0 { // e_shoff
		return false
	}
	buckets := uint64(word(f.data[at:]))
	from := at + 16 + 8*uint64(word(f.data[at+8:])) // the header and the Bloom filter
	if from+4*buckets > uint64(len(f.data)) {
		return false
	}
	return len(bytes.Trim(f.data[from:from+4*buckets], "\x00")) == 0
}
