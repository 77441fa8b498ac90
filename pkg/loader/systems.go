package loader

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/files"
)

// systemNames are the names of things on systems of a files.ABI.
type systemNames struct {
	machine elf.Machine
	class   elf.Class // 0: any
	data    elf.Data  // 0: any
	flag    uint32    // that e_flags has; 0: any
	// interpreter is where distributions have glibc's loader.
	interpreter string
	musl        string // its name in that of musl's loader
	triplet     string // Debian's, in its directories
	// vdso is the soname by which the loader knows the library that the kernel maps into each process (setup_vdso of
	// elf/setup-vdso.h, vdso(7)).
	vdso string
}

const efARMSoftFloat = 0x200 // EF_ARM_ABI_FLOAT_SOFT

// systemTable has the narrow rows before the wide.
var systemTable = [...]systemNames{
	{elf.EM_X86_64, elf.ELFCLASS64, 0, 0, "/lib64/ld-linux-x86-64.so.2", "x86_64", "x86_64-linux-gnu", "linux-vdso.so.1"},
	{elf.EM_X86_64, 0, 0, 0, "/libx32/ld-linux-x32.so.2", "x86_64", "x86_64-linux-gnu", "linux-vdso.so.1"},
	{elf.EM_386, 0, 0, 0, "/lib/ld-linux.so.2", "i386", "i386-linux-gnu", "linux-gate.so.1"},
	{elf.EM_AARCH64, 0, elf.ELFDATA2MSB, 0, "/lib/ld-linux-aarch64_be.so.1", "aarch64", "aarch64-linux-gnu",
		"linux-vdso.so.1"},
	{elf.EM_AARCH64, 0, 0, 0, "/lib/ld-linux-aarch64.so.1", "aarch64", "aarch64-linux-gnu", "linux-vdso.so.1"},
	{elf.EM_ARM, 0, 0, efARMSoftFloat, "/lib/ld-linux.so.3", "armhf", "arm-linux-gnueabihf", "linux-vdso.so.1"},
	{elf.EM_ARM, 0, 0, 0, "/lib/ld-linux-armhf.so.3", "armhf", "arm-linux-gnueabihf", "linux-vdso.so.1"},
	{elf.EM_PPC64, 0, elf.ELFDATA2LSB, 0, "/lib64/ld64.so.2", "powerpc64le", "powerpc64le-linux-gnu", "linux-vdso64.so.1"},
	{elf.EM_PPC64, 0, 0, 0, "/lib64/ld64.so.1", "powerpc64le", "powerpc64le-linux-gnu", "linux-vdso64.so.1"},
	{elf.EM_S390, elf.ELFCLASS64, 0, 0, "/lib/ld64.so.1", "s390x", "s390x-linux-gnu", "linux-vdso64.so.1"},
	{elf.EM_S390, 0, 0, 0, "/lib/ld.so.1", "s390x", "s390x-linux-gnu", "linux-vdso32.so.1"},
	{elf.EM_RISCV, elf.ELFCLASS64, 0, 0, "/lib/ld-linux-riscv64-lp64d.so.1", "riscv64", "riscv64-linux-gnu",
		"linux-vdso.so.1"},
	{elf.EM_RISCV, 0, 0, 0, "/lib/ld-linux-riscv32-ilp32d.so.1", "riscv64", "riscv64-linux-gnu", "linux-vdso.so.1"},
	{elf.EM_LOONGARCH, 0, 0, 0, "/lib64/ld-linux-loongarch-lp64d.so.1", "loongarch64", "", "linux-vdso.so.1"},
	{elf.EM_MIPS, elf.ELFCLASS64, 0, 0, "/lib64/ld.so.1", "", "", "linux-vdso.so.1"},
	{elf.EM_MIPS, 0, 0, 0, "/lib/ld.so.1", "", "", "linux-vdso.so.1"},
}

// systemOf returns the names of an ABI.
func systemOf(a files.ABI) systemNames {
	i := slices.IndexFunc(systemTable[:], func(n systemNames) bool {
		return n.machine == a.Machine && (n.class == 0 || n.class == a.Class) && (n.data == 0 || n.data == a.Data) &&
			(n.flag == 0 || a.Flags&n.flag != 0)
	})
	if i < 0 {
		return systemNames{interpreter: "/lib/ld.so.1"}
	}
	return systemTable[i]
}
