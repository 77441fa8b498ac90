package elfedit

import (
	"cmp"
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// scrub makes n bytes zeros, in what the layout writes, such as a copy of the string table, or in the file.
func (l *layout) scrub(s span) {
	if b := l.written(s.off, s.size); b != nil {
		clear(b)
	} else {
		l.dead = append(l.dead, s)
	}
}

// joined returns ranges in order of offset, and joins those that touch.
func joined(dead []span) []span {
	slices.SortFunc(dead, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	out := dead[:0]
	for _, s := range dead {
		if n := len(out) - 1; n >= 0 && out[n].end() >= s.off {
			out[n].size = max(out[n].end(), s.end()) - out[n].off
		} else {
			out = append(out, s)
		}
	}
	return out
}

// unshared returns the bytes of each retired string that no other string shares. Strings are given by their offsets
// in the table. The linker stores a string that is the tail of another only once (patchelf 162).
func (p *planner) unshared(retired []uint64) ([]span, error) {
	type text struct{ start, off, keep uint64 } // start: where a string that ends where this one does may begin
	all, ours := make([]text, 0, len(retired)), true
	for _, off := range retired {
		s, err := p.im.DynText(elfimage.Dyn{Tag: elf.DT_RUNPATH, Val: off, Off: p.im.DynOff})
		if err != nil {
			return nil, err
		}
		start, err := p.im.stringStart(0, off)
		if err != nil {
			return nil, err
		}
		all = append(all, text{start, off, off + uint64(len(s))})
		ours = ours && p.im.inOurRoom(off)
	}
	if len(all) == 0 {
		return nil, nil
	}
	low, high := all[0].start, all[0].keep
	for _, t := range all {
		low, high = min(low, t.start), max(high, t.keep)
	}
	ref := func(off uint64) {
		if off < low || off >= high {
			return
		}
		for i := range all {
			if t := &all[i]; off >= t.start && off < t.keep {
				t.keep = off
			}
		}
	}
	for _, e := range p.goal.entries {
		if e.text < 0 && elfimage.IsStringTag(e.Tag) {
			ref(e.Val)
		}
	}
	for _, r := range p.goal.renames {
		if r.text < 0 {
			ref(r.Val)
		}
	}
	if !ours || !p.goal.onlyRunPath { // a run path in our room has no other user
		complete, err := p.im.EachStringRef(func(off, at uint64) {
			if at == 0 || !p.goal.renamesAt(at) {
				ref(off)
			}
		})
		if !complete || err != nil {
			return nil, err
		}
	}
	out := make([]span, 0, len(all))
	for _, t := range all {
		if t.keep > t.off {
			out = append(out, span{t.off, t.keep - t.off})
		}
	}
	return out, nil
}
