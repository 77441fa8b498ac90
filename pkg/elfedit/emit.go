package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// emit turns a layout into writes, first those behind the end of the file, then the others.
func (p *planner) emit(l *layout) (*Edit, error) {
	im := p.im
	e := &Edit{im: im, size: int64(l.size)}
	for _, w := range l.live {
		l.put(l.now(w.off, w.len()), w.data)
	}
	p.putDynamic(l)
	if err := p.renameNeeds(l); err != nil {
		return nil, err
	}
	if p.goal.cache != nil && (l.note == nil || l.note.said == 0) {
		l.mute(p.goal.cache, p.goal.goesWhole())
	}
	for i := range p.goal.passed {
		l.mute(&p.goal.passed[i], false)
	}
	if n := l.note; n != nil && !n.fresh {
		b := make([]byte, max(noteSize(p.goal.desc), n.said))
		im.putNote(b, p.goal.desc)
		l.put(l.relocated.at(n.off, n.size), b)
	}
	retired, err := p.unshared(p.goal.retired)
	if err != nil {
		return nil, err
	}
	for _, s := range retired {
		l.scrub(span{l.table.off + s.off, s.size})
	}
	scrubs := make([]write, 0, len(l.dead))
	for _, s := range joined(l.dead) {
		scrubs = append(scrubs, write{off: s.off, data: zero(s.size)})
	}
	headers, err := p.headers(l)
	if err != nil {
		return nil, err
	}
	for _, grows := range []bool{true, false} {
		for _, w := range slices.Concat(l.fresh, l.changes, headers, scrubs) {
			if (w.off >= im.size) == grows {
				e.writes = append(e.writes, w)
			}
		}
	}
	for _, b := range l.moved {
		for _, i := range b.sections {
			if b.foreign && im.Sections[i].Type == elf.SHT_NOTE {
				e.moved = append(e.moved, im.SectionName(i))
			}
		}
	}
	return e, nil
}

// zero returns n zeros, which nobody may change.
func zero(n uint64) []byte {
	if n <= uint64(len(someZeros)) {
		return someZeros[:n:n]
	}
	return make([]byte, n)
}

var someZeros [256 << 10]byte // takes no memory until it is read, and then only the kernel's page of zeros

// renameNeeds gives version needs the names of other libraries.
func (p *planner) renameNeeds(l *layout) error {
	for _, r := range p.goal.renames {
		val := r.Val
		if r.text >= 0 {
			val = l.strings + p.goal.textAt[r.text]
		}
		word := p.im.Alloc(4)
		p.im.Order.PutUint32(word, uint32(val))
		l.put(l.now(r.at, 4), word)
	}
	return nil
}

// putDynamic writes the new entries of .dynamic.
func (p *planner) putDynamic(l *layout) {
	im := p.im
	if !im.hasDynamic() {
		return
	}
	old, now, es := im.Dynamic, p.entries(l), im.DynSize()
	if d := l.dynamic; d != nil {
		b := l.written(d.newOff, d.newSize)
		clear(b)
		for i, e := range now {
			im.encodeDyn(b[uint64(i)*es:], e)
		}
		return
	}
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
		return
	}
	if len(now) > len(old) { // what follows the old terminator may be anything
		last = len(now)
	}
	b := im.Alloc(uint64(last-first+1) * es)
	for i := first; i <= last; i++ {
		im.encodeDyn(b[uint64(i-first)*es:], at(now, i))
	}
	l.put(l.now(im.DynOff+uint64(first)*es, uint64(len(b))), b)
}

func (im *image) encodeDyn(b []byte, d elfimage.Dyn) {
	im.PutWord(b, uint64(d.Tag))
	im.PutWord(b[im.DynSize()/2:], d.Val)
}
