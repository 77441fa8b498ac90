package loader

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
		return a.otherOrder()
	}
	return a.matches(lib.Machine, lib.Flags)
}
