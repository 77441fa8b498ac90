package gpucode

import "slices"

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
