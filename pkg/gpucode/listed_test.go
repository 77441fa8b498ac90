package gpucode

import (
	"slices"
	"testing"
)

// What is listed is asked for as the entry that it stands for; what has no architecture of NVIDIA's always.
func TestListedIsAskedForAsItsEntry(t *testing.T) {
	targets, err := ParseTargets("9.0")
	if err != nil {
		t.Fatal(err)
	}
	var sum Sum
	c := Container{}
	for _, kind := range []Kind{PTX, Cubin, LTO, 0x40} {
		for _, capability := range []Capability{75, 80, 90, 100, 120} {
			for _, v := range []Variant{Baseline, Specific} {
				c.Entries = append(c.Entries, Entry{Kind: kind, Arch: Arch{Capability: capability, Variant: v},
					Size: 64})
			}
		}
	}
	sum.Add(&c)
	sum.AddBundle(&Bundle{Objects: []CodeObject{{AMD: "gfx1100", Size: 64}}})
	list := sum.List()
	if len(list) != len(c.Entries)+1 {
		t.Fatalf("%d of %d", len(list), len(c.Entries))
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		at := slices.IndexFunc(list, func(l Listed) bool { return l.Kind == e.Kind.String() && l.Arch == e.Name() })
		if at < 0 || list[at].Asked(targets) != e.Asked(targets) {
			t.Errorf("%s %s: %v", e.Kind, e.Name(), e.Asked(targets))
		}
	}
	if amd := list[slices.IndexFunc(list, func(l Listed) bool { return l.Arch == "gfx1100" })]; !amd.Asked(targets) {
		t.Error("AMD's code was judged by NVIDIA's rules")
	}
	var names []string
	for _, g := range GPUs(list) {
		names = append(names, g.String())
	}
	if !slices.Equal(names, []string{"7.5", "8.0", "9.0", "10.0", "12.0"}) {
		t.Error(names)
	}
}
