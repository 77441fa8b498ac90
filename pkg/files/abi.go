package files

import (
	"debug/elf"
	"fmt"

	"cuda-runpath/pkg/elfimage"
)

// ABI is what two files must have in common for one to load the other.
type ABI struct {
	Class   elf.Class
	Data    elf.Data
	Machine elf.Machine
	Flags   uint32 // e_flags
}

// ABIOf returns the ABI of a file.
func ABIOf(im *elfimage.Image) ABI { return ABI{im.Class, im.Data, im.Machine, im.Flags} }

// Accepts reports whether the loader of a program of this ABI takes a library of another one.
func (a ABI) Accepts(lib ABI) bool { return a.Refuses(lib) == "" }

// Refuses says why the loader of a program of this ABI passes a library of another
// one over, or "" (open_verify of elf/dl-load.c, elf_machine_matches_host).
func (a ABI) Refuses(lib ABI) string {
	switch {
	case lib.Class != a.Class:
		return fmt.Sprintf("wrong ELF class: %v", lib.Class)
	case lib.Data != a.Data:
		return a.OtherOrder()
	}
	return a.Matches(lib.Machine, lib.Flags)
}

func (f *File) abi() ABI {
	return ABI{elf.Class(f.Ident[elf.EI_CLASS]), elf.Data(f.Ident[elf.EI_DATA]), f.Machine, f.Flags}
}

// PIE reports whether the file says that it is a program (DF_1_PIE), though its type is ET_DYN.
func (f *File) PIE() bool { return f.Flags1&elf.DF_1_PIE != 0 }

// ABI returns what the file's header says; ok is false where it has none.
func (f *File) ABI() (a ABI, ok bool) {
	ok = !f.Short && f.IsELF()
	return f.abi(), ok
}

// e_flags that the loader compares (elf_machine_matches_host of each machine).
const (
	efMIPSABI2    = 0x20
	efMIPSNaN2008 = 0x400
	efMIPSFP64    = 0x200
	efPPC64ABI    = 0x3
	efRISCVFloat  = 0x6
)

// Matches is elf_machine_matches_host of the loader that this program has: "" or
// what differs.
func (a ABI) Matches(machine elf.Machine, flags uint32) string {
	same := machine == a.Machine
	pair := func(x, y elf.Machine) bool {
		return (machine == x || machine == y) && (a.Machine == x || a.Machine == y)
	}
	if !same && !pair(elf.EM_MIPS, elf.EM_MIPS_RS3_LE) && !pair(elf.EM_S390, 0xa390) &&
		!pair(elf.EM_SPARC, elf.EM_SPARC32PLUS) {
		return fmt.Sprintf("is for another machine: %v, not %v", machine, a.Machine)
	}
	var mask uint32
	switch a.Machine {
	case elf.EM_MIPS, elf.EM_MIPS_RS3_LE:
		mask = efMIPSNaN2008
		if a.Class == elf.ELFCLASS32 {
			mask |= efMIPSABI2
			if flags&efMIPSFP64 != 0 {
				return fmt.Sprintf("has the old FP64 ABI (e_flags %#x)", flags)
			}
		}
	case elf.EM_PPC64:
		if flags&efPPC64ABI != 0 && a.Flags&efPPC64ABI != 0 {
			mask = efPPC64ABI
		}
	case elf.EM_RISCV:
		mask = efRISCVFloat
	}
	if (flags^a.Flags)&mask != 0 {
		return fmt.Sprintf("is for another ABI of %v: e_flags %#x, not %#x", machine, flags, a.Flags)
	}
	return ""
}

// OtherOrder says that a file is of another byte order, as the loader does.
func (a ABI) OtherOrder() string {
	if a.Data == elf.ELFDATA2MSB {
		return "ELF file data encoding not big-endian"
	}
	return "ELF file data encoding not little-endian"
}
