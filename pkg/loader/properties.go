package loader

import (
	"debug/elf"
	"fmt"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// Tags of the dynamic section that debug/elf has no names for (elf.h of glibc).
const (
	dtAudit    elf.DynTag = 0x6ffffefc
	dtDepAudit elf.DynTag = 0x6ffffefb
)

// Properties of NT_GNU_PROPERTY_TYPE_0 notes (the x86-64 psABI, "Program Property").
const (
	ptGNUProperty    elf.ProgType = 0x6474e553
	propertyNote                  = 5 // NT_GNU_PROPERTY_TYPE_0
	propertyISA                   = 0xc0008002
	maxPropertyBytes              = 1 << 12
)

// properties reads what program headers say beside the dynamic section.
func (f *File) properties(im *elfimage.Image) {
	var property, note *elfimage.Prog
	for i := range im.Progs {
		switch p := &im.Progs[i]; p.Type {
		case ptGNUProperty:
			property = p
		case elf.PT_NOTE:
			if p.Align == 8 {
				note = p
			}
		case elf.PT_LOAD:
			if f.end == 0 || p.Vaddr < f.first {
				f.first = p.Vaddr
			}
			f.end = max(f.end, p.Vaddr+p.Memsz)
		}
	}
	if stack := im.Stack(); stack == nil && !slices.Contains(plainStacks, im.Machine) {
		f.ExecutableStack = fmt.Sprintf("it has no PT_GNU_STACK, and %v's default is an executable stack", im.Machine)
	} else if stack != nil && stack.Flags&elf.PF_X != 0 {
		f.ExecutableStack = "its PT_GNU_STACK has PF_X"
	}
	if property == nil {
		property = note // linkers of before PT_GNU_PROPERTY
	}
	if property == nil || im.Machine != elf.EM_X86_64 && im.Machine != elf.EM_386 || property.Filesz < 16 || property.Filesz > maxPropertyBytes {
		return
	}
	b := make([]byte, property.Filesz)
	if _, err := im.ReadAt(b, int64(property.Off)); err != nil {
		return
	}
	align := 4
	if im.Is64() {
		align = 8
	}
	// As _dl_process_property_note of sysdeps/x86/dl-prop.h: the first such note counts.
	for len(b) >= 16 {
		namesz, descsz, kind := im.Order.Uint32(b), im.Order.Uint32(b[4:]), im.Order.Uint32(b[8:])
		if namesz != 4 || uint64(descsz) > uint64(len(b)-16) {
			return
		}
		desc := b[16 : 16+descsz]
		if kind == propertyNote && string(b[12:16]) == "GNU\x00" {
			for len(desc) >= 8 {
				kind, size := im.Order.Uint32(desc), im.Order.Uint32(desc[4:])
				if uint64(size) > uint64(len(desc)-8) {
					return
				}
				if kind == propertyISA && size == 4 {
					f.isa = im.Order.Uint32(desc[8:])
					return
				}
				desc = desc[min(len(desc), 8+(int(size)+align-1)&^(align-1)):]
			}
			return
		}
		b = b[min(len(b), 16+(int(descsz)+align-1)&^(align-1)):]
	}
}

// checkISA is dl_isa_level_check of sysdeps/x86/dl-prop.h: the loader refuses to
// start, or to open, what is marked for more than the processor has.
func (s *Load) checkISA(objects []*Object) {
	if s.CPU.isa == 0 || s.Interp.Version < 33 {
		return
	}
	for i := len(objects) - 1; i >= 0; i-- {
		o := objects[i]
		if o.missing || o.Err != "" || o.File == nil || o == s.self || o.File.isa&^s.CPU.isa == 0 {
			continue
		}
		needs := "x86-64-baseline"
		for bit, name := range map[uint32]string{2: "x86-64-v2", 4: "x86-64-v3", 8: "x86-64-v4"} {
			if o.File.isa&bit != 0 && o.File.isa < bit<<1 {
				needs = name
			}
		}
		s.refuse(o, "CPU ISA level is lower than required (%s)", needs)
		return
	}
}

// plainStacks are the machines whose DEFAULT_STACK_PERMS is without PF_X (each machine's stackinfo.h).
var plainStacks = []elf.Machine{elf.EM_AARCH64, elf.EM_PPC64, elf.EM_RISCV, elf.EM_LOONGARCH, elf.EM_IA_64}

// checkStack is what glibc from 2.41 on does when it opens a library that asks for an
// executable stack while the process's is not: it refuses. What is loaded at start
// still gets one (elf/dl-load.c, glibc's NEWS for 2.41).
func (s *Load) checkStack(objects []*Object) {
	if s.Interp.Version < 41 || s.Interp.Version == Newest {
		return
	}
	for _, o := range s.Objects {
		if !o.late && !slices.Contains(objects, o) && o.File != nil && o != s.self && o.File.ExecutableStack != "" {
			return // it has an executable stack from the start
		}
	}
	for _, o := range objects {
		if o.File != nil && !o.missing && o.Err == "" && o != s.self && o.File.ExecutableStack != "" {
			s.refuse(o, "cannot enable executable stack as shared object requires (%s)", o.File.ExecutableStack)
			return
		}
	}
}
