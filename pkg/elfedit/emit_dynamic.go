package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// A dynScript edits the dynamic section one entry at a time, in an order in which
// every step leaves it readable.
type dynScript struct {
	im    *image
	cur   []elfimage.Dyn // as after the steps so far, without the terminator
	steps []dynStep
}

// A dynStep stores one entry. A DT_NULL terminates.
type dynStep struct {
	index int
	elfimage.Dyn
}

func newDynScript(im *image) *dynScript {
	return &dynScript{im: im, cur: slices.Clone(im.Dynamic)}
}

func (s *dynScript) set(i int, d elfimage.Dyn) {
	s.steps = append(s.steps, dynStep{i, d})
	switch {
	case i < len(s.cur):
		s.cur[i] = d
	case i == len(s.cur) && d.Tag != elf.DT_NULL:
		s.cur = append(s.cur, d)
	}
}

// retarget gives the entries with a tag a new value. Old and new place hold the
// same bytes while this happens, so the order does not matter to the loader.
func (s *dynScript) retarget(values tagValues) {
	for i, d := range s.cur {
		if v, ok := values.of(d.Tag); ok && v != d.Val {
			s.set(i, elfimage.Dyn{Tag: d.Tag, Val: v})
		}
	}
}

// setRunPath makes entry slot the only run path; slot == len(cur) takes a spare entry,
// a negative one appends where the section moves anyway.
func (s *dynScript) setRunPath(slot int, d elfimage.Dyn) {
	if slot < 0 || slot >= len(s.cur) {
		slot = len(s.cur)
		// What follows the old terminator may be anything: terminate again first.
		s.steps = append(s.steps, dynStep{slot + 1, elfimage.Dyn{}})
	}
	s.set(slot, d)
	s.dropRunPaths(slot)
}

// dropRunPaths removes the run path entries but keep (an index, or -1 for none).
// DT_RPATH goes before DT_RUNPATH, which hides it.
func (s *dynScript) dropRunPaths(keep int) {
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		for i := 0; i < len(s.cur); i++ {
			if s.cur[i].Tag != tag || i == keep {
				continue
			}
			s.remove(i)
			if i < keep {
				keep--
			}
			i--
		}
	}
}

// remove moves the later entries up one by one: after any step no entry is
// missing, and at worst one occurs twice.
func (s *dynScript) remove(i int) {
	for ; i+1 < len(s.cur); i++ {
		d := s.cur[i+1]
		if s.im.isRelative(d.Tag) {
			d.Val += s.im.DynSize()
		}
		s.set(i, d)
	}
	s.set(i, elfimage.Dyn{})
	s.cur = s.cur[:i]
}

// tagNothing is a tag that says nothing: glibc keeps the values of the range that begins with it and reads none of this
// one (DT_VALRNGLO), others pass over it.
const tagNothing = elf.DynTag(0x6ffffd00)

// writes turns the script into stores, one an entry. An entry that crosses a page takes more: a killed process can leave
// it half written, and a tag with the value of another one is an address or a name that nobody meant.
func (s *dynScript) writes() []write {
	es := s.im.DynSize()
	now := slices.Clone(s.im.Dynamic) // as after the steps so far
	var out []write
	for _, st := range s.steps {
		at := s.im.DynOff + uint64(st.index)*es
		b := make([]byte, es)
		s.encode(b, st.Dyn)
		was, known := elf.DT_NULL, st.index < len(now) // after the terminator may be anything, which nobody reads
		if known {
			was, now[st.index] = now[st.index].Tag, st.Dyn
		} else if st.index == len(now) {
			now = append(now, st.Dyn)
		}
		if samePage(at, es) {
			out = append(out, write{off: at, data: b})
			continue
		}
		value, tag := write{off: at + es/2, data: b[es/2:]}, write{off: at, data: b[:es/2]}
		switch {
		case known && was == st.Tag:
			out = append(out, value)
		case was == elf.DT_NULL, isRunPath(was) && isRunPath(st.Tag):
			out = append(out, value, tag)
		default: // what stood here stands one entry further up by now, or is to go
			nothing := make([]byte, es/2)
			s.im.PutWord(nothing, uint64(tagNothing))
			out = append(out, write{off: at, data: nothing}, value, tag)
		}
	}
	return out
}

func (s *dynScript) encode(b []byte, d elfimage.Dyn) { s.im.encodeDyn(b, d) }

func (im *image) encodeDyn(b []byte, d elfimage.Dyn) {
	im.PutWord(b, uint64(d.Tag))
	im.PutWord(b[im.DynSize()/2:], d.Val)
}

// encodeEntries writes a whole dynamic section.
func (p *planner) encodeEntries(b []byte, entries []elfimage.Dyn) {
	clear(b)
	for i, d := range entries {
		p.im.encodeDyn(b[uint64(i)*p.im.DynSize():], d)
	}
}

// dynamicWrites returns the writes that switch .dynamic where it is: one where
// what changes is in one page. Else entry by entry, as long as the states between
// are the file of before or the one of afterwards to the loader; ok is false where
// they are not, and .dynamic has to move.
func (p *planner) dynamicWrites(l *layout) (writes []write, ok bool) {
	if !l.asked { // place asks whether there are, emit takes them
		l.asked = true
		l.switches, l.switchable = p.switchDynamic(l)
	}
	return l.switches, l.switchable
}

func (p *planner) switchDynamic(l *layout) (writes []write, ok bool) {
	im := p.im
	if l.dynamic != nil || !im.hasDynamic() {
		return nil, true
	}
	if p.goal.squeezed == nil {
		return nil, false
	}
	var few [48]elfimage.Dyn
	old, now, es := im.Dynamic, p.entries(few[:0], l), im.DynSize()
	at := func(entries []elfimage.Dyn, i int) elfimage.Dyn {
		if i < len(entries) {
			return elfimage.Dyn{Tag: entries[i].Tag, Val: entries[i].Val}
		}
		return elfimage.Dyn{}
	}
	first, last := -1, -1
	for i := range max(len(old), len(now)) {
		if at(old, i) != at(now, i) {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return nil, true
	}
	if len(now) > len(old) { // what follows the old terminator may be anything
		last = len(now)
	}
	off, n := im.DynOff+uint64(first)*es, uint64(last-first+1)*es
	if samePage(off, n) {
		b := im.Alloc(n)
		for i := first; i <= last; i++ { // unchanged entries between are written as they were
			im.encodeDyn(b[uint64(i-first)*es:], at(now, i))
		}
		return append(make([]write, 0, 1), write{off: off, data: b}), true
	}
	s := newDynScript(im)
	switch {
	case p.goal.onlyRunPath:
		s.retarget(l.tags)
		if p.goal.slot < 0 {
			s.dropRunPaths(-1)
		} else {
			s.setRunPath(p.goal.slot, now[p.goal.slotAfter])
		}
	case !s.reduce(now):
		return nil, false
	}
	return s.writes(), true
}

// reduce removes entries until those are left that are wanted. It reports whether
// that was all that there was to do.
func (s *dynScript) reduce(now []elfimage.Dyn) bool {
	var gone []int
	for i, k := 0, 0; i < len(s.im.Dynamic); i++ {
		d := s.im.Dynamic[i]
		if k < len(now) && d.Tag == now[k].Tag && (d.Val == now[k].Val || s.im.isRelative(d.Tag)) {
			k++
		} else {
			gone = append(gone, i)
		}
	}
	if len(s.im.Dynamic)-len(gone) != len(now) {
		return false
	}
	for n := len(gone) - 1; n >= 0; n-- {
		s.remove(gone[n])
	}
	return true
}
