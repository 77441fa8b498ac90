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
func (s *dynScript) retarget(values map[elf.DynTag]uint64) {
	for i, d := range s.cur {
		if v, ok := values[d.Tag]; ok && v != d.Val {
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
// missing, and at worst one stands twice.
func (s *dynScript) remove(i int) {
	for ; i+1 < len(s.cur); i++ {
		d := s.cur[i+1]
		if s.isRelative(d.Tag) {
			d.Val += s.im.DynSize()
		}
		s.set(i, d)
	}
	s.set(i, elfimage.Dyn{})
	s.cur = s.cur[:i]
}

// isRelative tells the one entry whose value is relative to its own address
// (binutils include/elf/mips.h).
func (s *dynScript) isRelative(tag elf.DynTag) bool {
	return s.im.Machine == elf.EM_MIPS && tag == elf.DT_MIPS_RLD_MAP_REL
}

// writes turns the script into stores: a single write where all of it lies in one
// page, else one store an entry.
func (s *dynScript) writes() []write {
	if len(s.steps) == 0 {
		return nil
	}
	es := s.im.DynSize()
	first, last := s.steps[0].index, s.steps[0].index
	for _, st := range s.steps {
		first, last = min(first, st.index), max(last, st.index)
	}
	off, n := s.im.DynOff+uint64(first)*es, uint64(last-first+1)*es
	if samePage(off, n) {
		b := s.im.Bytes(n)
		for i := first; i <= last; i++ { // unchanged entries between are written as they were
			s.encode(b[uint64(i-first)*es:], s.at(i))
		}
		return []write{{off: off, data: b}}
	}
	var out []write
	for _, st := range s.steps {
		at := s.im.DynOff + uint64(st.index)*es
		b := s.im.Bytes(es)
		s.encode(b, st.Dyn)
		if samePage(at, es) {
			out = append(out, write{off: at, data: b})
			continue
		}
		// The value first: an entry without its tag says nothing.
		out = append(out, write{off: at + es/2, data: b[es/2:]}, write{off: at, data: b[:es/2]})
	}
	return out
}

// at returns entry i as after the script.
func (s *dynScript) at(i int) elfimage.Dyn {
	if i < len(s.cur) {
		return s.cur[i]
	}
	return elfimage.Dyn{}
}

func (s *dynScript) encode(b []byte, d elfimage.Dyn) {
	s.im.PutWord(b, uint64(d.Tag))
	s.im.PutWord(b[s.im.DynSize()/2:], d.Val)
}

// encodeInto writes the whole section, which moves by delta in memory, to b.
func (s *dynScript) encodeInto(b []byte, delta uint64) {
	clear(b)
	for i, d := range s.cur {
		if s.isRelative(d.Tag) {
			d.Val -= delta
		}
		s.encode(b[uint64(i)*s.im.DynSize():], d)
	}
}
