package files

import (
	"debug/elf"
	"testing"
)

// Each row is two files of one class and machine.
func TestAccepts(t *testing.T) {
	const little, big = elf.ELFDATA2LSB, elf.ELFDATA2MSB
	for _, c := range []struct {
		what string
		a, b ABI
		want bool
	}{
		{"ppc64, both byte orders", ABI{elf.ELFCLASS64, little, elf.EM_PPC64, 2}, ABI{elf.ELFCLASS64, big, elf.EM_PPC64, 1}, false},
		{"ppc64, ELFv1 and ELFv2", ABI{elf.ELFCLASS64, big, elf.EM_PPC64, 2}, ABI{elf.ELFCLASS64, big, elf.EM_PPC64, 1}, false},
		{"ppc64, one of them does not say", ABI{elf.ELFCLASS64, little, elf.EM_PPC64, 2}, ABI{elf.ELFCLASS64, little, elf.EM_PPC64, 0}, true},
		{"RISC-V, hard and soft float", ABI{elf.ELFCLASS64, little, elf.EM_RISCV, 4}, ABI{elf.ELFCLASS64, little, elf.EM_RISCV, 0}, false},
		{"RISC-V, compressed or not", ABI{elf.ELFCLASS64, little, elf.EM_RISCV, 5}, ABI{elf.ELFCLASS64, little, elf.EM_RISCV, 4}, true},
		{"MIPS, o32 and n32", ABI{elf.ELFCLASS32, big, elf.EM_MIPS, 0x20}, ABI{elf.ELFCLASS32, big, elf.EM_MIPS, 0}, false},
		{"x86-64, whatever the flags", ABI{elf.ELFCLASS64, little, elf.EM_X86_64, 0}, ABI{elf.ELFCLASS64, little, elf.EM_X86_64, 7}, true},
	} {
		if got := c.a.Accepts(c.b); got != c.want {
			t.Errorf("%s: %v: %s", c.what, got, c.a.Refuses(c.b))
		}
		if got := c.b.Accepts(c.a); got != c.want {
			t.Errorf("%s, the other way round: %v: %s", c.what, got, c.b.Refuses(c.a))
		}
	}
}
