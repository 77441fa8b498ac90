package gpucode

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Outcome says what a GPU takes of a container, from the worst to the best.
type Outcome int

// The outcomes.
const (
	NoCode Outcome = iota // nothing fits: error 209, "no kernel image is available for execution on the device"
	// only PTX that the driver does not know yet: error 222, "the provided PTX was compiled with an unsupported toolchain"
	TooNew
	Compiled // PTX, which the driver compiles when the program starts for the first time
	Linked   // LTO-IR, which the library links at run time, or code of a kind that is not known
	Native   // a cubin
)

// The errors of the CUDA driver that GPU code decides (cuda.h, CUresult).
const (
	ErrNoBinaryForGPU        = 209
	ErrUnsupportedPTXVersion = 222
	ErrNotFound              = 500
)

// On returns what a GPU takes of a container with a driver of a CUDA version, which may be
// the zero Version, and the entry; nil for NoCode. A fitting cubin is taken before any PTX
// (without CUDA_FORCE_PTX_JIT), and of several the one that is nearest to the GPU.
func (c *Container) On(g Capability, driver Version) (Outcome, *Entry) {
	return c.best(func(e *Entry) Outcome {
		switch {
		case e.Kind == Cubin:
			if e.RunsOn(g) {
				return Native
			}
		case e.Kind == LTO && !e.CompilesFor(g), e.Kind == PTX && !e.CompilesFor(g):
		case e.Kind != PTX || c.Resource:
			return Linked
		case compiles(driver, e.Version):
			return Compiled
		default:
			return TooNew
		}
		return NoCode
	})
}

// onLater returns what GPUs to come take of a container, where PTX for t was asked for.
func (c *Container) onLater(t Target) Outcome {
	o, _ := c.best(func(e *Entry) Outcome {
		switch {
		case e.Kind == PTX && e.CompilesFor(t.Capability):
			return Compiled
		case e.Kind == LTO && e.CompilesFor(t.Capability), e.Kind != Cubin && e.Kind != PTX && e.Kind != LTO:
			return Linked
		}
		return NoCode
	})
	return o
}

func (c *Container) best(take func(*Entry) Outcome) (Outcome, *Entry) {
	var best *Entry
	outcome := NoCode
	for i := range c.Entries {
		e := &c.Entries[i]
		if o := take(e); o > outcome || o == outcome && best != nil && e.Arch.Compare(best.Arch) > 0 {
			best, outcome = e, o
		}
	}
	return outcome, best
}

// Judgement is what a GPU takes of a file.
type Judgement struct {
	// Containers counts those that have kernels and are loaded, by what is taken of them.
	Containers [Native + 1]int
	// Error is 0 where the program works, else the error that it gets of the driver.
	Error int
}

// Total returns the number of containers that have kernels and are loaded.
func (j *Judgement) Total() (n int) {
	for _, c := range j.Containers {
		n += c
	}
	return n
}

// Judge says what a GPU takes of the containers of a file, with a driver of a CUDA version;
// the zero Version, where it is not known.
//
// Libraries have containers that are meant for some GPUs alone: a kernel for sm_90a beside
// one for all, or a kernel for each architecture, of which the library picks one. Nothing in
// the file tells them from code that was forgotten: their kernels have names of their own
// either way. So the containers of a file are compared. That one has nothing for the GPU is
// no error where another one has something, unless more than half of those that nvcc
// registers were made for one list of architectures, which then is that of the build, and
// nothing in that list is for the GPU. Containers for sm_90a and the like alone do not count
// where there are others.
//
// Relocatable device code (nvcc -rdc) is linked into cubins; where none of these is for the
// GPU, the driver links PTX and cubins of all objects again, if each has some (nvcc manual,
// "JIT Linking Support"). That is taken for the chance of a container that has cubins alone.
// Where it has none, the kernel is not found: error 500 (seen with CUDA 13.0 on an H100).
//
// So a file is not found in which most containers have code, and a kernel that is needed has
// not; nor, as long as one container has code, a file of which no two containers were made
// for the same.
func (f *File) Judge(g Capability, driver Version) Judgement {
	return f.judge(func(c *Container) Outcome {
		o, _ := c.On(g, driver)
		return o
	})
}

// JudgeForced is Judge where CUDA_FORCE_PTX_JIT is set: the driver takes no cubin of the file (CUDA Programming Guide,
// "CUDA Environment Variables").
func (f *File) JudgeForced(g Capability, driver Version) Judgement {
	return f.judge(func(c *Container) Outcome {
		rest := *c
		rest.Entries = slices.DeleteFunc(slices.Clone(c.Entries), func(e Entry) bool { return e.Kind == Cubin })
		o, _ := rest.On(g, driver)
		return o
	})
}

// JudgeLater is Judge for the GPUs to come, for which PTX was asked for.
func (f *File) JudgeLater(t Target) Judgement {
	return f.judge(func(c *Container) Outcome { return c.onLater(t) })
}

func (f *File) judge(on func(*Container) Outcome) (j Judgement) {
	relinked, relocatable := f.relink(on)
	general := f.hasGeneral()
	registered, unlinked := 0, 0
	builds := map[string]int{} // registered containers without code, by what they were made for
	best := NoCode
	for i := range f.Containers {
		c := &f.Containers[i]
		if c.Relocatable || !c.HasKernels() {
			continue
		}
		o := on(c)
		if o <= TooNew && !c.has(PTX) {
			if o = max(o, relinked); o == NoCode && relocatable {
				unlinked++
			}
		}
		j.Containers[o]++
		if general && c.isSpecific() {
			continue
		}
		best = max(best, o)
		if c.Resource {
			continue
		}
		registered++
		if o <= TooNew {
			builds[c.list()]++
		}
	}
	for _, n := range builds {
		if 2*n > registered {
			best = min(best, TooNew)
		}
	}
	if j.Total() == 0 && relocatable { // PTX alone, of which the device linker makes nothing
		j.Containers[relinked]++
		best, unlinked = relinked, 1
	}
	switch {
	case j.Total() == 0 || best > TooNew:
	case j.Containers[TooNew] > j.Containers[NoCode]:
		j.Error = ErrUnsupportedPTXVersion
	case 2*unlinked > j.Containers[NoCode]:
		j.Error = ErrNotFound
	default:
		j.Error = ErrNoBinaryForGPU
	}
	return j
}

// relink returns what comes of linking the file's relocatable code for a GPU again, and
// whether it has any. LTO-IR is not linked by the driver.
func (f *File) relink(on func(*Container) Outcome) (o Outcome, some bool) {
	o = Compiled
	for i := range f.Containers {
		if c := &f.Containers[i]; c.Relocatable && c.HasKernels() {
			some = true
			if of := on(c); of == Linked {
				o = NoCode
			} else {
				o = min(o, of)
			}
		}
	}
	if !some {
		return NoCode, false
	}
	return o, true
}

// isSpecific reports whether a container is for sm_90a and the like alone.
func (c *Container) isSpecific() bool {
	return !slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Variant == Baseline })
}

// hasGeneral reports whether the file has containers with kernels for more than sm_90a and the like.
func (f *File) hasGeneral() bool {
	return slices.ContainsFunc(f.Containers, func(c Container) bool {
		return !c.Relocatable && c.HasKernels() && !c.isSpecific()
	})
}

// list returns what a container was made for, as a key.
func (c *Container) list() string {
	names := make([]byte, 0, 64)
	for i := range c.Entries {
		names = append(append(names, c.Entries[i].Name()...), ' ')
	}
	return string(names)
}

// Megabytes writes a number of bytes for people.
func Megabytes(n uint64) string {
	if n < 1e5 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// PartOf writes a number of bytes as a part of another, in that one's unit.
func PartOf(part, all uint64) string {
	whole := Megabytes(all)
	unit := 1e6
	if strings.HasSuffix(whole, "kB") {
		unit = 1e3
	}
	return fmt.Sprintf("%.1f of %s", float64(part)/unit, whole)
}

// Code is what a file, or several, have for one architecture in one form.
type Code struct {
	Kind Kind
	Arch
	AMD     AMD     // of AMD's code objects, else ""
	Packed  bool    // Bytes are those of unpacked code
	Version Version // the PTX ISA of PTX, else zero
	Entries int
	Bytes   uint64 // in the file, with headers
}

// Name returns what nvcc calls the code's architecture: sm_90a, compute_90.
func (c *Code) Name() string {
	if c.AMD != "" {
		return string(c.AMD)
	}
	return (&Entry{Kind: c.Kind, Arch: c.Arch}).Name()
}

// Sum is how much code there is, by kind, architecture and PTX ISA, in this order; machine
// code first.
type Sum []Code

// Add adds the code of a container.
func (s *Sum) Add(c *Container) {
	for i := range c.Entries {
		e := &c.Entries[i]
		code := Code{Kind: e.Kind, Arch: e.Arch, Entries: 1, Bytes: e.Bytes()}
		if e.Kind == PTX {
			code.Version = e.Version
		}
		s.add(code)
	}
}

// AddBundle adds the code of a bundle.
func (s *Sum) AddBundle(b *Bundle) {
	for _, o := range b.Objects {
		s.add(Code{Kind: Object, AMD: o.AMD, Packed: b.Unpacked > 0, Entries: 1, Bytes: o.Size})
	}
}

// Merge adds a sum.
func (s *Sum) Merge(t Sum) {
	for _, c := range t {
		s.add(c)
	}
}

func (s *Sum) add(c Code) {
	at, found := slices.BinarySearchFunc(*s, c, compareCode)
	if !found {
		*s = slices.Insert(*s, at, c)
		return
	}
	(*s)[at].Entries += c.Entries
	(*s)[at].Bytes += c.Bytes
}

func compareCode(a, b Code) int {
	first := func(c Code) bool { return c.Kind != Cubin }
	if first(a) != first(b) {
		if first(b) {
			return -1
		}
		return 1
	}
	packed := 0
	if a.Packed != b.Packed {
		packed = 1
		if b.Packed {
			packed = -1
		}
	}
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Arch.Compare(b.Arch), a.AMD.Compare(b.AMD),
		a.Version.Compare(b.Version), packed)
}

// Unasked returns the code that no GPU of the targets could use: cubins for others, and PTX
// that is for later ones only. Where PTX was asked for, which is for GPUs to come, all of it
// is. LTO-IR and code of other kinds is never unasked.
func (f *File) Unasked(targets []Target) Sum {
	var sum Sum
	for i := range f.Containers {
		for k := range f.Containers[i].Entries {
			if e := &f.Containers[i].Entries[k]; !e.Asked(targets) {
				sum.add(Code{Kind: e.Kind, Arch: e.Arch, Entries: 1, Bytes: e.Bytes()})
			}
		}
	}
	return sum
}

// Asked reports whether a GPU of the targets could use the entry. What is neither a cubin nor PTX, any could.
func (e *Entry) Asked(targets []Target) bool {
	return slices.ContainsFunc(targets, func(t Target) bool {
		switch e.Kind {
		case Cubin:
			return e.MayRunOn(t.Capability)
		case PTX:
			return t.Virtual || e.CompilesFor(t.Capability)
		}
		return true
	})
}
