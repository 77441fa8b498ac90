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

// Bits of e_flags that choose an ABI (the processor supplements; glibc's elf/elf.h).
const (
	armFloatSoft   = 0x200  // EF_ARM_ABI_FLOAT_SOFT
	armFloatHard   = 0x400  // EF_ARM_ABI_FLOAT_HARD
	mipsABI2       = 0x20   // EF_MIPS_ABI2: N32
	mipsNaN2008    = 0x400  // EF_MIPS_NAN2008
	riscvFloat     = 0x6    // EF_RISCV_FLOAT_ABI
	riscvDouble    = 0x4    // EF_RISCV_FLOAT_ABI_DOUBLE
	larchFloat     = 0x7    // EF_LARCH_ABI_MODIFIER_MASK
	larchDouble    = 0x3    // EF_LARCH_ABI_DOUBLE_FLOAT
	flagSparc64    = 0x0100 // and so on: the FLAG_* of ldconfig.h
	flagX8664      = 0x0300
	flagS390x      = 0x0400
	flagPPC64      = 0x0500
	flagMIPSN32    = 0x0600
	flagMIPSN64    = 0x0700
	flagX32        = 0x0800
	flagARMHard    = 0x0900
	flagAArch64    = 0x0a00
	flagARMSoft    = 0x0b00
	flagMIPSNaN    = 0x0c00
	flagMIPSN32NaN = 0x0d00
	flagMIPSN64NaN = 0x0e00
	flagRISCVSoft  = 0x0f00
	flagRISCVHard  = 0x1000
	flagLarchSoft  = 0x1100
	flagLarchHard  = 0x1200
)

// defaultFlags returns the flags with which ldconfig enters a library of the ABI,
// and which its loader prefers (_DL_CACHE_DEFAULT_ID in each machine's dl-cache.h).
func (a ABI) defaultFlags() uint32 {
	long := a.Class == elf.ELFCLASS64
	choose := func(ok bool, yes, no uint32) uint32 {
		if ok {
			return yes
		}
		return no
	}
	var required uint32
	switch a.Machine {
	case elf.EM_X86_64:
		required = choose(long, flagX8664, flagX32)
	case elf.EM_AARCH64:
		required = flagAArch64
	case elf.EM_S390:
		required = choose(long, flagS390x, 0)
	case elf.EM_PPC64:
		required = flagPPC64
	case elf.EM_SPARCV9:
		required = flagSparc64
	case elf.EM_ARM:
		required = choose(a.Flags&armFloatHard != 0, flagARMHard, choose(a.Flags&armFloatSoft != 0, flagARMSoft, 0))
	case elf.EM_MIPS, elf.EM_MIPS_RS3_LE:
		nan := a.Flags&mipsNaN2008 != 0
		switch {
		case long:
			required = choose(nan, flagMIPSN64NaN, flagMIPSN64)
		case a.Flags&mipsABI2 != 0:
			required = choose(nan, flagMIPSN32NaN, flagMIPSN32)
		default:
			required = choose(nan, flagMIPSNaN, 0)
		}
	case elf.EM_RISCV:
		required = choose(a.Flags&riscvFloat == riscvDouble, flagRISCVHard, flagRISCVSoft)
	case elf.EM_LOONGARCH:
		required = choose(a.Flags&larchFloat == larchDouble, flagLarchHard, flagLarchSoft)
	}
	return required | flagLibc6
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
