package ldcache

import "debug/elf"

// Kinds of library, in the low byte of an entry's flags.
const (
	flagELF   = 1 // FLAG_ELF: a library for no particular C library
	flagLibc6 = 3 // FLAG_ELF_LIBC6: a library for glibc
)

// ABI says for which loader a file is, by three fields of its ELF header.
type ABI struct {
	Machine elf.Machine
	Class   elf.Class
	Flags   uint32 // e_flags
}

// The flags of 32-bit ARM's two floating-point ABIs.
const (
	flagARMHard = 0x0900
	flagARMSoft = 0x0b00
)

// required are the FLAG_* of glibc's ldconfig.h by ABI, the first row that fits: bits of e_flags that choose it
// (the processor supplements; glibc's elf/elf.h) have a value. An ABI that is in no row has none.
var required = [...]struct {
	machine    elf.Machine
	class      elf.Class // 0: any
	mask, bits uint32
	flag       uint32
}{
	{elf.EM_X86_64, elf.ELFCLASS64, 0, 0, 0x0300},
	{elf.EM_X86_64, 0, 0, 0, 0x0800}, // x32
	{elf.EM_AARCH64, 0, 0, 0, 0x0a00},
	{elf.EM_S390, elf.ELFCLASS64, 0, 0, 0x0400},
	{elf.EM_PPC64, 0, 0, 0, 0x0500},
	{elf.EM_SPARCV9, 0, 0, 0, 0x0100},
	{elf.EM_ARM, 0, 0x400, 0x400, flagARMHard}, // EF_ARM_ABI_FLOAT_HARD
	{elf.EM_ARM, 0, 0x200, 0x200, flagARMSoft},
	{elf.EM_MIPS, elf.ELFCLASS64, 0x400, 0x400, 0x0e00}, // EF_MIPS_NAN2008
	{elf.EM_MIPS, elf.ELFCLASS64, 0, 0, 0x0700},
	{elf.EM_MIPS, 0, 0x420, 0x420, 0x0d00}, // EF_MIPS_ABI2: N32
	{elf.EM_MIPS, 0, 0x420, 0x020, 0x0600},
	{elf.EM_MIPS, 0, 0x420, 0x400, 0x0c00},
	{elf.EM_RISCV, 0, 0x6, 0x4, 0x1000}, // EF_RISCV_FLOAT_ABI_DOUBLE
	{elf.EM_RISCV, 0, 0, 0, 0x0f00},
	{elf.EM_LOONGARCH, 0, 0x7, 0x3, 0x1200}, // EF_LARCH_ABI_DOUBLE_FLOAT
	{elf.EM_LOONGARCH, 0, 0, 0, 0x1100},
}

// defaultFlags returns the flags with which ldconfig enters a library of the ABI,
// and which its loader prefers (_DL_CACHE_DEFAULT_ID in each machine's dl-cache.h).
func (a ABI) defaultFlags() uint32 {
	if a.Machine == elf.EM_MIPS_RS3_LE {
		a.Machine = elf.EM_MIPS
	}
	for _, r := range required {
		if r.machine == a.Machine && (r.class == 0 || r.class == a.Class) && a.Flags&r.mask == r.bits {
			return r.flag | flagLibc6
		}
	}
	return flagLibc6
}

// accepts is _dl_cache_check_flags.
func (a ABI) accepts(flags uint32) bool {
	id := a.defaultFlags()
	if flags == id {
		return true
	}
	switch {
	case a.Machine == elf.EM_ARM && id == flagLibc6:
		// The file does not say which floating-point ABI its loader has.
		return flags == flagARMHard|flagLibc6 || flags == flagARMSoft|flagLibc6
	case a.Machine == elf.EM_ARM:
		return flags == flagLibc6
	case id == flagLibc6: // i386, ppc, s390, sparc, m68k, o32 …: the generic dl-cache.h
		return flags == flagELF
	}
	return false
}

// Fits reports whether the loader of an ABI would take the entry, the processor's abilities aside.
func (e Entry) Fits(a ABI) bool { return a.accepts(e.Flags) }
