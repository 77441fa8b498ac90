package main

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"
)

// facts is what debug/elf and this file read of an ELF file: nothing of it is read
// by the code that is tested. Each element is a line "what: value".
func facts(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]string{"os abi": fmt.Sprint(byte(f.OSABI)), "type": f.Type.String()}
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_INTERP:
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err != nil {
				return nil, fmt.Errorf("PT_INTERP: %w", err)
			}
			s, _, _ := strings.Cut(string(b), "\x00")
			out["interpreter"] = s
		case elf.PT_NOTE:
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err != nil {
				return nil, fmt.Errorf("PT_NOTE: %w", err)
			}
			if note := resolutionNote(f, b, max(p.Align, 4)); note != "" {
				out["resolution note"] = note
			}
		case elf.PT_GNU_STACK:
			out["stack"] = fmt.Sprint(p.Flags & elf.PF_X)
		}
	}
	entries, strtab, err := dynamic(f, data)
	if err != nil {
		return nil, err
	}
	var needed []string
	for _, e := range entries {
		tag := elf.DynTag(e[0])
		text := func() string {
			if e[1] >= uint64(len(strtab)) {
				return fmt.Sprintf("<offset %#x beyond the string table>", e[1])
			}
			s, _, _ := strings.Cut(string(strtab[e[1]:]), "\x00")
			return s
		}
		switch tag {
		case elf.DT_NEEDED:
			needed = append(needed, text())
		case elf.DT_SONAME, elf.DT_RPATH, elf.DT_RUNPATH, elf.DT_AUXILIARY, elf.DT_FILTER:
			out[tag.String()] = text()
		case elf.DT_FLAGS, elf.DT_FLAGS_1:
			out[tag.String()] = fmt.Sprintf("%#x", e[1])
		case elf.DT_DEBUG:
			out[tag.String()] = "present"
		}
	}
	out["needed"] = strings.Join(needed, " ")
	needs, err := f.DynamicVersionNeeds()
	if err == nil {
		var lines []string
		for _, n := range needs {
			for _, v := range n.Needs {
				lines = append(lines, n.Name+"("+v.Dep+")")
			}
		}
		slices.Sort(lines)
		out["versions needed"] = strings.Join(lines, " ")
	}
	symbols, err := f.DynamicSymbols()
	if err == nil {
		var lines []string
		for _, s := range symbols {
			lines = append(lines, s.Name+"@"+s.Version+"@"+s.Library)
		}
		slices.Sort(lines)
		out["symbols"] = strings.Join(lines, " ")
	}
	return out, nil
}

// resolutionNote returns the description of the note that patchelf --build-resolution-cache writes, among notes.
func resolutionNote(f *elf.File, b []byte, align uint64) string {
	up := func(n uint64) uint64 { return (n + align - 1) / align * align }
	for len(b) >= 12 {
		name, desc, kind := uint64(f.ByteOrder.Uint32(b)), uint64(f.ByteOrder.Uint32(b[4:])), f.ByteOrder.Uint32(b[8:])
		start := up(12 + name)
		if start+desc > uint64(len(b)) {
			break
		}
		if kind == 0x63a86cb6 && strings.HasPrefix(string(b[12:]), "NixOS\x00") {
			return string(b[start : start+desc])
		}
		b = b[min(up(start+desc), uint64(len(b))):]
	}
	return ""
}

// dynamic returns the dynamic section as the loader finds it, by PT_DYNAMIC, and its string table.
func dynamic(f *elf.File, data []byte) (entries [][2]uint64, strtab []byte, err error) {
	at := func(addr uint64) (uint64, bool) {
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr < p.Vaddr+p.Filesz {
				return addr - p.Vaddr + p.Off, true
			}
		}
		return 0, false
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_DYNAMIC {
			continue
		}
		off, ok := at(p.Vaddr)
		if !ok || off+p.Filesz > uint64(len(data)) {
			return nil, nil, fmt.Errorf("PT_DYNAMIC is not in a PT_LOAD")
		}
		size := 16
		if f.Class == elf.ELFCLASS32 {
			size = 8
		}
		for b := data[off : off+p.Filesz]; len(b) >= size; b = b[size:] {
			e := [2]uint64{word(f, b), word(f, b[size/2:])}
			if e[0] == 0 {
				break
			}
			entries = append(entries, e)
		}
	}
	var table, length uint64
	for _, e := range entries {
		switch elf.DynTag(e[0]) {
		case elf.DT_STRTAB:
			table = e[1]
		case elf.DT_STRSZ:
			length = e[1]
		}
	}
	if table != 0 {
		off, ok := at(table)
		if !ok || off+length > uint64(len(data)) {
			return nil, nil, fmt.Errorf("DT_STRTAB is not in a PT_LOAD")
		}
		strtab = data[off : off+length]
	}
	return entries, strtab, nil
}

func word(f *elf.File, b []byte) uint64 {
	if f.Class == elf.ELFCLASS32 {
		return uint64(f.ByteOrder.Uint32(b))
	}
	return f.ByteOrder.Uint64(b)
}
