package elfedit

import "cuda-runpath/pkg/elfimage"

func (im *image) encodeDyn(b []byte, d elfimage.Dyn) {
	im.PutWord(b, uint64(d.Tag))
	im.PutWord(b[im.DynSize()/2:], d.Val)
}

// encodeEntries writes a whole dynamic section, with zeros after it.
func (im *image) encodeEntries(b []byte, entries []elfimage.Dyn) {
	clear(b)
	for i, d := range entries {
		im.encodeDyn(b[uint64(i)*im.DynSize():], d)
	}
}

// switchDynamic gives a layout the entries that the dynamic section has afterwards, and where that stays the write that
// switches it, if anything changes. It is false where what changes crosses a page and can be torn by a kill: it has to
// move.
func (p *planner) switchDynamic(l *layout) bool {
	im := p.im
	l.entries = p.entries(l)
	if l.dynamic != nil || !im.hasDynamic() {
		return true
	}
	old, now, es := im.Dynamic, l.entries, im.DynSize()
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
		return true
	}
	if len(now) > len(old) { // what follows the old terminator may be anything
		last = len(now)
	}
	off, n := im.DynOff+uint64(first)*es, uint64(last-first+1)*es
	if !samePage(off, n) {
		return false
	}
	b := im.Alloc(n)
	for i := first; i <= last; i++ { // unchanged entries between are written as they were
		im.encodeDyn(b[uint64(i-first)*es:], at(now, i))
	}
	l.switches = []write{{off: off, data: b}}
	return true
}
