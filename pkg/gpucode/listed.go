package gpucode

import (
	"slices"
	"strings"
)

// Listed is [Code] as JSON documents have it.
type Listed struct {
	Kind    string `json:"kind"` // cubin, PTX, LTO-IR, code object
	Arch    string `json:"arch"` // sm_90a, compute_90, lto_80, gfx1100
	ISA     string `json:"isa,omitempty"`
	Packed  bool   `json:"compressed,omitempty"` // the bytes are those of the code unpacked
	Entries int    `json:"entries"`
	Bytes   uint64 `json:"bytes"`
}

// List returns the sum as JSON documents have it; never nil.
func (s Sum) List() []Listed {
	out := make([]Listed, len(s))
	for i := range s {
		c := &s[i]
		out[i] = Listed{Kind: c.Kind.String(), Arch: c.Name(), Packed: c.Packed, Entries: c.Entries, Bytes: c.Bytes}
		if c.Kind == PTX {
			out[i].ISA = c.Version.String()
		}
	}
	return out
}

// Sum returns how much code there is of which kind, in containers and bundles.
func (f *File) Sum() (sum Sum) {
	for i := range f.Containers {
		sum.Add(&f.Containers[i])
	}
	for i := range f.Bundles {
		sum.AddBundle(&f.Bundles[i])
	}
	return sum
}

// target returns the architecture that the code is for; false for AMD's, and for what has none that is known.
func (l *Listed) target() (Target, bool) {
	if l.Kind != Cubin.String() && l.Kind != PTX.String() {
		return Target{}, false
	}
	t, ok := parseTarget(l.Arch)
	return t, ok && t.AMD == ""
}

// Asked is [Entry.Asked] of listed code.
func (l *Listed) Asked(targets []Target) bool {
	t, ok := l.target()
	e := Entry{Kind: Cubin, Arch: t.Arch}
	if l.Kind == PTX.String() {
		e.Kind = PTX
	}
	return !ok || e.Asked(targets)
}

// GPUs returns the compute capabilities for which there is a cubin or PTX in lists of code, in order.
func GPUs(lists ...[]Listed) (all []Target) {
	for _, list := range lists {
		for i := range list {
			if t, ok := list[i].target(); ok {
				t = Target{Arch: Arch{Capability: t.Capability}, Real: true}
				if !slices.Contains(all, t) {
					all = append(all, t)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Target) int { return a.Compare(b.Arch) })
	return all
}

// GPU returns for which GPU the code is, as people write it: 9.0a, gfx1100.
func (l *Listed) GPU() string {
	t, ok := parseTarget(strings.Replace(l.Arch, "lto_", "sm_", 1))
	if !ok || t.AMD != "" {
		return l.Arch
	}
	return t.Arch.String()
}

// Capability returns the compute capability that a cubin or PTX is for; false for other code.
func (l *Listed) Capability() (Capability, bool) {
	t, ok := l.target()
	return t.Capability, ok
}

// On returns what a GPU takes of some code: for which GPU that was made, and whether it is a cubin or PTX; "" where it
// takes none.
func On(list []Listed, g Capability) (gpu string, kind Kind) {
	var best Arch
	for i := range list {
		t, ok := list[i].target()
		switch is := list[i].Kind; {
		case !ok, gpu != "" && kind.String() == is && t.Compare(best) < 0:
		case is == Cubin.String() && t.RunsOn(g):
			best, gpu, kind = t.Arch, list[i].GPU(), Cubin
		case is == PTX.String() && kind != Cubin && t.CompilesFor(g):
			best, gpu, kind = t.Arch, list[i].GPU(), PTX
		}
	}
	return gpu, kind
}
