package loader

import (
	"debug/elf"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/ldcache"
	"cuda-runpath/pkg/regular"
)

func cacheABI(a files.ABI) ldcache.ABI {
	return ldcache.ABI{Machine: a.Machine, Class: a.Class, Flags: a.Flags}
}

// verify is open_verify of elf/dl-load.c for a file that exists. It returns why the loader passes the file over and
// goes on (skip), or why it gives up (fatal). debian: the loader has Debian's patch
// unsubmitted-ldso-machine-mismatch.diff, which looks at the machine before the byte order, both read in the loader's
// own order.
func verify(a files.ABI, f *files.File, debian bool) (skip, fatal string) {
	if err, ok := f.Err.(files.ReadError); ok {
		return "", err.Error()
	}
	need := int64(52)
	if a.Class == elf.ELFCLASS64 {
		need = 64
	}
	switch {
	case f.ELF == nil && f.Size == 0 && f.Err != nil: // a FIFO, a socket …
		return "", f.Err.Error()
	case f.Size < need:
		return "", "file too short"
	case string(f.Ident[:len(elf.ELFMAG)]) != elf.ELFMAG:
		return "", "invalid ELF header"
	case elf.Class(f.Ident[elf.EI_CLASS]) != a.Class:
		return fmt.Sprintf("wrong ELF class: %v", elf.Class(f.Ident[elf.EI_CLASS])), ""
	case elf.Data(f.Ident[elf.EI_DATA]) != a.Data:
		why := a.OtherOrder()
		if debian && a.Matches(elf.Machine(bits.ReverseBytes16(uint16(f.Machine))), bits.ReverseBytes32(f.Flags)) != "" {
			return why, ""
		}
		return "", why
	case f.Ident[elf.EI_VERSION] != byte(elf.EV_CURRENT):
		return "", "ELF file version ident does not match current one"
	}
	osabi := elf.OSABI(f.Ident[elf.EI_OSABI])
	switch {
	case osabi != elf.ELFOSABI_NONE && osabi != elf.ELFOSABI_LINUX &&
		!(a.Machine == elf.EM_ARM && osabi == elf.ELFOSABI_ARM):
		return "", "ELF file OS ABI invalid"
	case f.Ident[elf.EI_ABIVERSION] != 0 && (osabi != elf.ELFOSABI_LINUX ||
		f.Ident[elf.EI_ABIVERSION] > lastABIVersion(a.Machine)):
		return "", "ELF file ABI version invalid"
	}
	if slices.ContainsFunc(f.Ident[elf.EI_PAD:], func(b byte) bool { return b != 0 }) {
		return "", "nonzero padding in e_ident"
	}
	if f.Version != uint32(elf.EV_CURRENT) {
		return "", "ELF file version does not match current one"
	}
	if skip := a.Matches(f.Machine, f.Flags); skip != "" {
		return skip, ""
	}
	phent := uint16(32)
	if a.Class == elf.ELFCLASS64 {
		phent = 56
	}
	switch {
	case f.Type != elf.ET_DYN && f.Type != elf.ET_EXEC:
		return "", "only ET_DYN and ET_EXEC can be loaded"
	case f.Phentsize != phent:
		return "", "ELF file's phentsize not the expected size"
	case f.Err != nil:
		return "", f.Err.Error()
	// What follows is _dl_map_object_from_fd's.
	case f.Type == elf.ET_EXEC:
		return "", "cannot dynamically load executable"
	case f.Flags1&elf.DF_1_PIE != 0:
		return "", "cannot dynamically load position-independent executable"
	case !f.HasDynamic:
		return "", "object file has no dynamic section"
	}
	return "", ""
}

// lastABIVersion returns the highest EI_ABIVERSION that glibc accepts in a file of ELFOSABI_LINUX. glibc's libc-abis,
// since 2.28, counts it by lines: UNIQUE, IFUNC on some machines, ABSOLUTE.
func lastABIVersion(m elf.Machine) byte {
	switch m {
	case elf.EM_X86_64, elf.EM_386, elf.EM_PPC, elf.EM_PPC64, elf.EM_SPARC, elf.EM_SPARCV9, elf.EM_RISCV:
		return 3
	}
	return 2
}

// A CPU is what the search needs to know of the processor.
type CPU struct {
	// Subdirs are the glibc-hwcaps subdirectories in use, the best first
	// (each machine's dl-hwcaps-subdirs.c).
	Subdirs []string
	// legacy are the names that glibc before 2.37 combined to subdirectories (elf/dl-hwcaps.c): hardware
	// capabilities, then the platform. "tls" is added to them.
	legacy []string
	// isa are the levels of x86-64 that the processor has, a bit each
	// (GNU_PROPERTY_X86_ISA_1_…); 0 for other machines.
	isa uint32
	// platform is the value of $PLATFORM.
	platform string
}

var x86Levels = []string{"x86-64-v4", "x86-64-v3", "x86-64-v2"}

// What each level of x86-64 needs more than the one below, the lowest first, and what platforms and avx512_1 need, by
// the kernel's names (sysdeps/x86_64/dl-hwcaps_subdirs.c, sysdeps/x86/cpu-features.c).
var x86LevelFeatures = []string{"cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2",
	"avx avx2 bmi1 bmi2 f16c fma abm movbe", "avx512f avx512bw avx512cd avx512dq avx512vl"}

const (
	avx512Features  = "avx512cd avx512bw avx512dq avx512vl"
	xeonPhiFeatures = "avx512cd avx512er avx512pf"
	haswellFeatures = "avx2 fma bmi1 bmi2 abm movbe popcnt"
)

// CPUNames are the values that ParseCPU knows beside "native" and "baseline".
var CPUNames = []string{"x86-64-v2", "x86-64-v3", "x86-64-v4", "power9", "power10", "z13", "z14", "z15", "z16", "z17"}

// Levels returns the glibc-hwcaps subdirectories of a machine, the best processor's first; nil if there are none.
func Levels(m elf.Machine) []string {
	switch m {
	case elf.EM_X86_64:
		return x86Levels
	case elf.EM_PPC64:
		return []string{"power10", "power9"}
	case elf.EM_S390:
		return []string{"z17", "z16", "z15", "z14", "z13"}
	}
	return nil
}

// cpuFor returns the processor of a name for programs of a machine. "native" is this machine's, if it can run them,
// and "baseline" the least.
func cpuFor(name string, m elf.Machine) CPU {
	if name == "" || name == "native" {
		if cpu := nativeCPU(); cpu.machine == m {
			return cpu.CPU
		} else if cpu.machine == elf.EM_X86_64 && m == elf.EM_386 {
			return CPU{platform: "i686", legacy: []string{"sse2", "i686"}, isa: cpu.isa}
		}
	}
	cpu := CPU{}
	if i := slices.Index(x86Levels, name); m == elf.EM_X86_64 || m == elf.EM_386 {
		if cpu.isa = 1; i >= 0 {
			cpu.isa = 1<<(len(x86Levels)-i+1) - 1
		}
	}
	switch m {
	case elf.EM_X86_64:
		cpu.platform, cpu.legacy = "x86_64", []string{"x86_64", "x86_64"}
	case elf.EM_386:
		cpu.platform, cpu.legacy = "i686", []string{"sse2", "i686"}
	case elf.EM_AARCH64:
		cpu.platform, cpu.legacy = "aarch64", []string{"aarch64"}
	case elf.EM_PPC64:
		cpu.platform = "power8"
	}
	if levels := Levels(m); slices.Contains(levels, name) {
		cpu.Subdirs = levels[slices.Index(levels, name):]
	}
	return cpu
}

type native struct {
	CPU
	machine elf.Machine
}

// nativeCPU looks at this machine's processor as sysdeps/x86/cpu-features.c and
// get-isa-level.h do. Machines other than x86-64 count as baseline.
var nativeCPU = sync.OnceValue(func() native {
	switch runtime.GOARCH {
	case "arm64", "amd64":
	default:
		return native{}
	}
	has := map[string]bool{}
	intel := false
	// Only the first processor's part, whole in one read: the kernel writes the text while it is read, slowly with many
	// processors.
	var text [8192]byte
	if fd, err := regular.Descriptor(unix.AT_FDCWD, "/proc/cpuinfo", unix.O_RDONLY); err == nil {
		n, _ := unix.Read(fd, text[:])
		unix.Close(fd)
		first, _, _ := strings.Cut(string(text[:max(n, 0)]), "\n\n")
		for line := range strings.SplitSeq(first, "\n") {
			key, value, _ := strings.Cut(line, ":")
			switch strings.TrimSpace(key) {
			case "vendor_id":
				intel = strings.TrimSpace(value) == "GenuineIntel"
			case "flags", "Features":
				for flag := range strings.FieldsSeq(value) {
					has[flag] = true
				}
			}
		}
	}
	if runtime.GOARCH == "arm64" {
		cpu := CPU{platform: "aarch64", legacy: []string{"aarch64"}}
		if has["atomics"] { // HWCAP_IMPORTANT of sysdeps/unix/sysv/linux/aarch64/dl-procinfo.h
			cpu.legacy = []string{"atomics", "aarch64"}
		}
		return native{cpu, elf.EM_AARCH64}
	}
	// Kernels of some virtual machines leave out "abm" (LZCNT), which the loader sees by CPUID. Every processor with
	// AVX2 and BMI1 has it.
	has["abm"] = has["abm"] || has["avx2"] && has["bmi1"]
	all := func(flags ...string) bool {
		return !slices.ContainsFunc(flags, func(f string) bool { return !has[f] })
	}
	cpu := CPU{platform: "x86_64"}
	levels := 0
	for _, level := range x86LevelFeatures {
		if !all(strings.Fields(level)...) {
			break
		}
		levels++
	}
	cpu.Subdirs = x86Levels[len(x86Levels)-levels:]
	cpu.isa = 1<<(levels+1) - 1
	cpu.legacy = []string{"x86_64"}
	if intel {
		switch {
		case all(strings.Fields(xeonPhiFeatures)...):
			cpu.platform = "xeon_phi"
		case all(strings.Fields(avx512Features)...) && !has["avx512er"]:
			cpu.legacy = append(cpu.legacy, "avx512_1")
		}
		if cpu.platform == "x86_64" && all(strings.Fields(haswellFeatures)...) {
			cpu.platform = "haswell"
		}
	}
	cpu.legacy = append(cpu.legacy, cpu.platform)
	return native{cpu, elf.EM_X86_64}
})

// subdirs returns the subdirectories, each with a slash at its end, that the
// loader searches in each directory, the directory itself ("") last
// (_dl_important_hwcaps in elf/dl-hwcaps.c).
func (c CPU) subdirs(in *Interpreter) []string {
	var out []string
	if in.hwcaps {
		for _, s := range c.Subdirs {
			out = append(out, "glibc-hwcaps/"+s+"/")
		}
	}
	if in.Version >= 37 {
		return append(out, "")
	}
	names := append(c.combined(in.Version), "tls")
	for set := 1<<len(names) - 1; set >= 0; set-- {
		s := ""
		for i := len(names) - 1; i >= 0; i-- {
			if set&(1<<i) != 0 {
				s += names[i] + "/"
			}
		}
		out = append(out, s)
	}
	return out
}

// combined returns the names that a glibc before 2.37 combines. On x86-64 it has had hardware capabilities since
// 2.26, and "x86_64" among them since 2.27. Before, only the kernel named the platform (sysdeps/x86/dl-hwcap.h,
// cpu-features.c).
func (c CPU) combined(v Version) []string {
	names := slices.Clone(c.legacy)
	if v >= 27 || len(names) == 0 || names[0] != "x86_64" {
		return names
	}
	if v < 26 {
		return names[:1]
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "x86_64" })
}

// The bits of hardware capabilities and platforms before glibc 2.37, in LD_HWCAP_MASK and in entries of ld.so.cache
// (sysdeps/x86/dl-hwcap.h, _DL_FIRST_PLATFORM; sysdeps/unix/sysv/linux/aarch64/bits/hwcap.h).
var hwcapBit = map[string]uint64{"sse2": 1 << 0, "x86_64": 1 << 1, "avx512_1": 1 << 2, "atomics": 1 << 8,
	"i586": 1 << 48, "i686": 1 << 49, "haswell": 1 << 50, "xeon_phi": 1 << 51}

// processor says which entries of ld.so.cache a loader for a machine uses.
func (c CPU) processor(in *Interpreter, m elf.Machine) ldcache.Processor {
	p := ldcache.Processor{ISA: c.isa}
	if in.hwcaps {
		p.Subdirs = c.Subdirs
	}
	if in.Version >= 37 || m != elf.EM_X86_64 && m != elf.EM_386 {
		return p
	}
	p.Legacy, p.Platforms = true, 15<<48
	if m == elf.EM_386 {
		p.Platforms = 3 << 48
	}
	for _, name := range c.legacy[:len(c.legacy)-1] {
		p.HWCaps |= hwcapBit[name]
	}
	if p.Platform = hwcapBit[c.platform] & p.Platforms; p.Platform == 0 {
		p.Platform = 1 // of no entry
	}
	return p
}
