package elfedit

import "cuda-runpath/pkg/elfimage"

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

// dynamicWrites returns the write that switches .dynamic where it is, none where nothing changes. ok is
// false where what changes crosses a page and can be torn by a kill: it has to move.
func (p *planner) dynamicWrites(l *layout) (writes []write, ok bool) {
	im := p.im
	if l.dynamic != nil || !im.hasDynamic() {
		return nil, true
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
	if !samePage(off, n) {
		return nil, false
	}
	b := im.Alloc(n)
	for i := first; i <= last; i++ { // unchanged entries between are written as they were
		im.encodeDyn(b[uint64(i-first)*es:], at(now, i))
	}
	return append(make([]write, 0, 1), write{off: off, data: b}), true
}
