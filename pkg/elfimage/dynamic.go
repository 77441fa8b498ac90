package elfimage

import (
	"debug/elf"
	"path"
	"slices"
)

// maxDynamic bounds the entries of a dynamic section. Real ones have some dozens, and one per needed library. A file
// of zeros or noise must not be read to its end.
const maxDynamic = 1 << 16

func (im *Image) parseDynamic(dyn *Prog) error {
	es := im.DynSize()
	filesz := dyn.Filesz
	if p := im.Segment(dyn.Vaddr, 1); p != nil && im.loads {
		filesz = p.Vaddr + p.Filesz - dyn.Vaddr // the loader reads on until there is a DT_NULL
	}
	off, ok := im.FileOffset(dyn.Vaddr, filesz)
	if !ok || off != dyn.Off && !im.loads {
		return Malformed(dyn.Off, "PT_DYNAMIC at address %#x does not match what a PT_LOAD maps there", dyn.Vaddr)
	}
	im.DynOff, im.DynCap = off, int(min(filesz/es, maxDynamic))
	terminated := false
	own := im.spare()
	im.Dynamic = own.dynamic[:0]
	for i := 0; i < im.DynCap && !terminated; i += 64 {
		err := im.EachPiece(off+uint64(i)*es, uint64(min(im.DynCap-i, 64)), es, func(at uint64, b []byte) {
			for ; len(b) > 0 && !terminated; at, b = at+es, b[es:] {
				d := Dyn{Tag: elf.DynTag(im.Word(b)), Val: im.Word(b[es/2:]), Off: at}
				if terminated = d.Tag == elf.DT_NULL; !terminated {
					im.Dynamic = append(im.Dynamic, d)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	own.dynamic, im.Dynamic = im.Dynamic, slices.Clip(im.Dynamic)
	if !terminated && im.DynCap == maxDynamic && filesz/es > maxDynamic {
		return Malformed(off, "dynamic section has more than %d entries", maxDynamic)
	}
	if !terminated {
		return Malformed(off, "dynamic section of %d entries has no DT_NULL", im.DynCap)
	}
	tab, hasTab := im.Dyn(elf.DT_STRTAB)
	size, hasSize := im.Dyn(elf.DT_STRSZ)
	if !hasTab || !hasSize {
		return Malformed(off, "dynamic section has no DT_STRTAB or no DT_STRSZ")
	}
	im.StrAddr, im.StrSize = tab.Val, size.Val
	if im.StrOff, ok = im.FileOffset(im.StrAddr, im.StrSize); !ok {
		return Malformed(tab.Off, "string table of %d bytes at address %#x is in no PT_LOAD", im.StrSize, im.StrAddr)
	}
	return nil
}

// Dyn returns the last dynamic entry with a tag, because glibc's loader lets a later entry replace an earlier one
// (elf/get-dynamic-info.h).
func (im *Image) Dyn(tag elf.DynTag) (Dyn, bool) {
	for i := len(im.Dynamic) - 1; i >= 0; i-- {
		if im.Dynamic[i].Tag == tag {
			return im.Dynamic[i], true
		}
	}
	return Dyn{}, false
}

// DynString returns the string at an offset of the dynamic string table.
func (im *Image) DynString(d Dyn) (string, error) {
	b, err := im.DynText(d)
	return string(b), err
}

// DynText is DynString in memory that the next read may overwrite.
func (im *Image) DynText(d Dyn) ([]byte, error) {
	if d.Val >= im.StrSize {
		return nil, Malformed(d.Off, "%v is offset %#x of a string table of %d bytes", d.Tag, d.Val, im.StrSize)
	}
	b, err := im.text(im.StrOff+d.Val, im.StrOff+im.StrSize)
	// Names that end alike share their bytes. Many names, each in the one before, would take the square of the file's
	// size.
	if im.named += uint64(len(b)); im.named > 64*im.size+1<<20 {
		return nil, Malformed(d.Off, "the dynamic strings are more bytes than the file, %d, many times over", im.size)
	}
	return b, err
}

func (im *Image) dynString(tag elf.DynTag) (string, bool, error) {
	d, ok := im.Dyn(tag)
	if !ok {
		return "", false, nil
	}
	s, err := im.DynString(d)
	return s, err == nil, err
}

// RunPath returns the list that the loader uses and its tag: DT_RUNPATH if there is one, else DT_RPATH, else 0. If
// both are there, glibc ignores DT_RPATH (elf/dl-load.c, decompose_rpath), and so does musl (ldso/dynlink.c).
func (im *Image) RunPath() (tag elf.DynTag, list string, err error) {
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		if s, ok, err := im.dynString(tag); ok || err != nil {
			return tag, s, err
		}
	}
	return 0, "", nil
}

// Shadowed returns the DT_RPATH that a DT_RUNPATH beside it makes the loader ignore.
func (im *Image) Shadowed() (list string, ok bool, err error) {
	if _, both := im.Dyn(elf.DT_RUNPATH); !both {
		return "", false, nil
	}
	return im.dynString(elf.DT_RPATH)
}

// Needed returns the names in DT_NEEDED, in the file's order, which is the order of loading.
func (im *Image) Needed() ([]string, error) {
	return im.DynStrings(elf.DT_NEEDED)
}

// Soname returns DT_SONAME, or "" if there is none.
func (im *Image) Soname() (string, error) {
	s, _, err := im.dynString(elf.DT_SONAME)
	return s, err
}

// Interpreter returns the path in PT_INTERP, or "" if there is none.
func (im *Image) Interpreter() (string, error) {
	p := im.Prog(elf.PT_INTERP)
	if p == nil || im.detached {
		return "", nil
	}
	if p.Filesz > im.size || p.Off > im.size-p.Filesz {
		return "", Malformed(p.Off, "PT_INTERP of %d bytes is outside the file of %d bytes", p.Filesz, im.size)
	}
	return im.cstring(p.Off, p.Off+p.Filesz)
}

// A Reason says why a file gets no run path from us; "" means that it may get one.
type Reason string

// The reasons for which a file is skipped.
const (
	NotELF      Reason = "not an ELF file"
	Relocatable Reason = "a relocatable object"
	Core        Reason = "a core file"
	OtherType   Reason = "neither a program nor a shared library"
	Detached    Reason = "a detached debug file"
	NoDynamic   Reason = "no dynamic section"
	Static      Reason = "a static program"
	StaticPIE   Reason = "a static-PIE program"
	Loader      Reason = "the dynamic loader itself"
	OtherLoader Reason = "for another loader (OS ABI 255, machine 0), as Guile's compiled files are"
	CUDACode    Reason = "code for an NVIDIA GPU (machine 190), which the driver loads"
	AMDCode     Reason = "code for an AMD GPU (machine 224), which its runtime loads"
	IntelCode   Reason = "code for an Intel GPU (machine 205), which its runtime loads"
)

// Loadable reports whether the file is a program or library with program headers.
func (im *Image) Loadable() bool {
	return (im.Type == elf.ET_EXEC || im.Type == elf.ET_DYN) && len(im.Progs) > 0 && im.notForLoaders() == ""
}

// notForLoaders are the kinds of files that no dynamic loader takes, whatever their type says. GPU code looks like
// shared libraries, with a dynamic section (LLVM, "User Guide for AMDGPU Backend", Code Object: machine 224, mostly
// OS ABI 64; intel/compute-runtime, zebin: machine 205). A Guile file's dynamic section has tags of its own and no
// string table (Guile, module/system/vm/linker.scm).
var notForLoaders = []struct {
	machine elf.Machine
	abis    []elf.OSABI // nil: any
	reason  Reason
}{
	{elf.EM_NONE, []elf.OSABI{elf.ELFOSABI_STANDALONE}, OtherLoader},
	{elf.EM_CUDA, nil, CUDACode},
	{elf.EM_AMDGPU, nil, AMDCode},
	{elf.EM_INTEL205, nil, IntelCode},
}

// notForLoaders returns why no dynamic loader takes such a file, or "".
func (im *Image) notForLoaders() Reason {
	for _, n := range notForLoaders {
		if im.Machine == n.machine && (n.abis == nil || slices.Contains(n.abis, im.OSABI)) {
			return n.reason
		}
	}
	return ""
}

// SkipReason says why a file has no run path to edit. The loader itself has none: glibc's asserts at start that it
// has neither DT_RPATH nor DT_RUNPATH (elf/get-dynamic-info.h).
func (im *Image) SkipReason() Reason {
	if reason := im.notForLoaders(); reason != "" {
		return reason
	}
	switch im.Type {
	case elf.ET_REL:
		return Relocatable
	case elf.ET_CORE:
		return Core
	case elf.ET_EXEC, elf.ET_DYN:
	default:
		return OtherType
	}
	interp := im.Prog(elf.PT_INTERP) != nil
	switch {
	case im.detached:
		return Detached
	case im.DynCap == 0 && !interp && im.Type == elf.ET_EXEC:
		return Static
	case im.DynCap == 0:
		return NoDynamic
	case !interp && im.Type == elf.ET_EXEC:
		return Static
	}
	flags1, _ := im.Dyn(elf.DT_FLAGS_1)
	if !interp && elf.DynFlag1(flags1.Val)&elf.DF_1_PIE != 0 {
		return StaticPIE
	}
	if im.isLoader() {
		return Loader
	}
	return ""
}

// isLoader recognizes a dynamic loader by its soname. glibc's are ld-linux*.so.N, ld64.so.N and ld.so.1. musl's,
// which is its libc, is ld-musl-ARCH.so.1, or libc.musl-ARCH.so.1 on distributions that set one.
func (im *Image) isLoader() bool {
	if _, needs := im.Dyn(elf.DT_NEEDED); needs {
		return false
	}
	name, err := im.Soname()
	if err != nil || name == "" {
		return false
	}
	for _, pattern := range []string{"ld-linux*.so.*", "ld64.so.*", "ld.so.*", "ld-musl-*.so.*", "libc.musl-*.so.*"} {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// DynStrings returns the strings of every entry with a tag.
func (im *Image) DynStrings(tag elf.DynTag) ([]string, error) {
	var out []string
	for _, d := range im.Dynamic {
		if d.Tag == tag {
			s, err := im.DynString(d)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}
