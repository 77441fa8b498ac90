package elfedit

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// Finish returns the edit that finishes one that was interrupted, and the file as it leaves it, or nil for both
// where there is nothing to finish. What the loader sees stays: where .dynamic was not switched the file becomes what
// it was, else what the edit was to leave. The second image reads from the first, which must not be released before.
func Finish(im *elfimage.Image) (*Edit, *elfimage.Image, error) {
	if !im.Stopped() {
		return nil, nil, nil
	}
	x := newImage(im)
	e, err := x.finish()
	if err != nil {
		return nil, nil, x.blame(err)
	}
	after, err := elfimage.ParseHead(overlay{e, len(e.writes)}, e.size, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("planned edit does not read back: %w", err)
	}
	return e, after, nil
}

// Then returns the edit that carries out e and next, of the file that e leaves; either may be nil.
func (e *Edit) Then(next *Edit) *Edit {
	if e == nil || next == nil {
		if next == nil {
			return e
		}
		return next
	}
	next.first = e
	return next
}

// A finisher works out how an interrupted edit is finished.
type finisher struct {
	im    *image
	r     *record
	seg   int    // index of the flagged segment
	off   uint64 // of the record in the file
	size  uint64 // its size, bytes
	fresh bool   // .dynamic is not switched: the file becomes what it was

	view   *image // what the file says with the headers that it is to have
	shoff  uint64
	whole  bool // the section headers of afterwards are there
	claims claims
	writes []write
}

// finish plans it. A record that does not fit is not obeyed.
func (im *image) finish() (*Edit, error) {
	f := &finisher{im: im, seg: elfimage.Unfinished(im.Progs)}
	why := f.find()
	if why == nil {
		e, err := f.plan()
		if err == nil {
			return e, nil
		}
		why = err
	}
	e, err := (&finisher{im: im, seg: f.seg}).alone(why == errNoRecord)
	if e != nil && why != errNoRecord {
		e.dropped = why.Error()
	}
	return e, err
}

var errNoRecord = errors.New("no record")

// find reads the record.
func (f *finisher) find() error {
	q := &f.im.Progs[f.seg]
	n := min(q.Filesz, 2*maxRecord)
	b, err := f.im.Read(q.Off+q.Filesz-n, n)
	if err != nil {
		return err
	}
	r, at, size := readRecord(b)
	if r == nil {
		return errNoRecord
	}
	f.r, f.off, f.size = r, q.Off+q.Filesz-n+uint64(at), uint64(size)
	if r.at != q.Vaddr+f.off-q.Off || r.grown != q.Vaddr {
		return errors.New("it is about another place")
	}
	switch sum := f.im.dynamicSum(f.im.Dynamic); sum {
	case r.now:
	case r.old:
		f.fresh = true
	default:
		return errors.New("the dynamic section has been changed since")
	}
	return nil
}

// plan works out the writes.
func (f *finisher) plan() (*Edit, error) {
	im, r := f.im, f.r
	f.claims.moved = r.moved
	dead, filled := im.size, im.size // what they leave: all of them are read, and none twice
	for _, d := range r.dead {
		dead -= min(d.size, dead+1)
	}
	for _, s := range r.filled {
		filled -= min(s.size, filled+1)
	}
	if dead > im.size || filled > im.size {
		return nil, errors.New("it names more than the file has")
	}
	if err := f.look(); err != nil {
		return nil, err
	}
	if err := f.progs(); err != nil {
		return nil, err
	}
	if err := f.sections(); err != nil {
		return nil, err
	}
	c, note, err := f.note()
	if err != nil {
		return nil, err
	}
	for _, m := range r.moved {
		if off, ok := im.FileOffset(m.addr, m.size); ok && m.addr != m.newAddr {
			f.claims.free = append(f.claims.free, span{off, m.size})
		}
	}
	e := &Edit{im: im, size: int64(im.size), finishes: true}
	if f.fresh {
		err = f.back(e, note)
	} else {
		err = f.on(e, note)
	}
	if err != nil {
		return nil, err
	}
	e.writes = f.writes
	if c.OSABI = f.osabi(); c.OSABI != nil {
		f.view.OSABI = elf.OSABI(*c.OSABI)
	}
	return e, e.verified(f.view, c, f.claims)
}

// osabi returns the OS ABI that the file gets back, nil for the one that it has: one of the two that loaders take.
func (f *finisher) osabi() *byte {
	if was := elf.OSABI(f.r.osabi); f.fresh && was != f.im.OSABI &&
		(was == elf.ELFOSABI_NONE || was == elf.ELFOSABI_LINUX) {
		b := byte(was)
		return &b
	}
	return nil
}

// look lets view be another image of the file, to be given other headers.
func (f *finisher) look() error {
	view, err := elfimage.ParseHead(f.im, int64(f.im.size), nil)
	f.view = &image{Image: view, size: f.im.size}
	return err
}

// on finishes what was begun: the headers, symbols, zeros over what is dead, and over the record.
func (f *finisher) on(e *Edit, note []write) error {
	im, r := f.im, f.r
	own := elfimage.Unfinished(f.view.Progs)
	if own < 0 {
		return errors.New("its segment is lost")
	}
	q := &f.view.Progs[own]
	now := slices.Clone(f.view.Progs) // as long as the record counts
	now[own] = im.Progs[f.seg]
	if err := f.headers(e, now); err != nil {
		return err
	}
	f.writes = append(f.writes, note...)
	if err := f.symbols(); err != nil {
		return err
	}
	for _, d := range r.dead {
		if err := f.scrub(d); err != nil {
			return err
		}
	}
	if f.whole && r.end < im.size { // section headers for the time
		e.size = int64(r.end)
		f.writes = append(f.writes, write{off: r.end, cut: true})
	}
	q.Flags &^= elfimage.Editing | recorded
	q.Filesz, q.Memsz = r.at-q.Vaddr, r.at-q.Vaddr
	f.zero(span{f.off, f.size})
	f.writes = append(f.writes, im.progAt(own, *q))
	return nil
}

// back makes the file what it was.
func (f *finisher) back(e *Edit, note []write) error {
	im, r, q := f.im, f.r, f.im.Progs[f.seg]
	f.writes = append(f.writes, note...)
	for _, s := range r.filled {
		if off, ok := im.FileOffset(s.addr, s.size); !ok || s.size > im.size {
			return errors.New("what it has filled is not mapped")
		} else if zero, err := im.zeros(off, s.size); err != nil {
			return err
		} else if !zero {
			f.zero(span{off, s.size})
		}
	}
	area := span{q.Off + r.was, q.Filesz - r.was}
	f.claims.free = append(f.claims.free, area)
	if err := f.headers(e, f.view.Progs); err != nil {
		return err
	}
	if f.shoff == r.shoff && f.view.imageEnd() <= r.size && area.end() > r.size && r.size <= im.size { // what was appended
		e.size = int64(r.size)
		f.writes = append(f.writes, write{off: r.size, cut: true})
		return nil
	}
	b, err := im.Read(area.off, area.size)
	if err == nil && !isZero(b) {
		f.writes = append(f.writes, write{off: area.off, data: zero(area.size)})
	}
	return err
}

// headers writes the program headers and where the section headers are, and these where they are elsewhere.
func (f *finisher) headers(e *Edit, progs []elfimage.Prog) error {
	im, view := f.im, f.view
	p := &planner{im: im, goal: &goal{osabi: f.osabi()}}
	l := &layout{sections: view.Sections, shoff: im.Shoff}
	if f.shoff != im.Shoff {
		l.shoff = f.shoff
	} else if first, last := p.changedSections(l, -1); first >= 0 {
		w := im.sectionsAt(im.Shoff, first, view.Sections[first:last+1]...)
		if !samePage(w.off, w.len()) || len(view.Sections) != len(im.Sections) || !f.fresh && !slices.Equal(progs, im.Progs) {
			l.shoff = alignUp(im.size, 8)
			w = im.sectionsAt(l.shoff, 0, view.Sections...)
			e.size = int64(w.off + w.len())
		}
		f.writes = append(f.writes, w)
	}
	view.Shoff, f.shoff = l.shoff, l.shoff
	if l.shoff == im.Shoff && len(view.Sections) == len(im.Sections) && slices.Equal(progs, im.Progs) &&
		p.goal.osabi == nil {
		return nil
	}
	w, err := p.header(progs, l.shoff, len(view.Sections))
	if n := len(im.Progs) - len(progs); n > 0 && len(w) == 1 { // nothing of them stays
		f.claims.free = append(f.claims.free, span{w[0].off + w[0].len(), uint64(n) * im.PhdrSize()})
		w[0].data = append(w[0].data, make([]byte, uint64(n)*im.PhdrSize())...)
	}
	f.writes = append(f.writes, w...)
	return err
}

// progs are the program headers that the file is to have; the segment of the edit stays flagged.
func (f *finisher) progs() error {
	im, r := f.im, f.r
	progs, refs := slices.Clone(im.Progs), r.after
	if f.fresh {
		refs = r.before
	}
	switch {
	case len(refs) > 0 && progsSum(im.Progs) == r.force:
		progs = progs[:0]
		for _, ref := range refs {
			q, err := f.prog(ref)
			if err != nil {
				return err
			}
			progs = append(progs, q)
		}
	case f.fresh && (len(refs) > 0 || r.was == 0):
		return errors.New("the program headers have been changed since")
	}
	own := elfimage.Unfinished(progs)
	switch {
	case f.fresh && r.was == 0:
		if own >= 0 {
			return errors.New("the segment that is new was there")
		}
	case own < 0 || r.was > progs[own].Filesz || f.fresh && progs[own].Memsz != progs[own].Filesz:
		return errors.New("the segment that grows is another")
	case f.fresh:
		q := &progs[own]
		q.Flags &^= elfimage.Editing | recorded
		q.Filesz, q.Memsz = r.was, r.was
	}
	im.fitTable(progs)
	f.view.Progs = progs
	if err := f.kept(progs); err != nil {
		return err
	}
	for _, q := range progs {
		if (movableProg(q.Type) || q.Type == elf.PT_GNU_RELRO || q.Type == elf.PT_GNU_EH_FRAME) &&
			q.Filesz > 0 && !followsSegment(q, progs) {
			return fmt.Errorf("%v would not be mapped", q.Type)
		}
	}
	if f.fresh && r.was == 0 {
		q := im.Progs[f.seg]
		return f.unused(q.Vaddr, q.Memsz)
	}
	return nil
}

// kept makes sure that no program header of now is lost or is another one, but for those of what moves and of what is
// new.
func (f *finisher) kept(progs []elfimage.Prog) error {
	im, r, seg := f.im, f.r, &f.im.Progs[f.seg]
	for i, q := range im.Progs {
		same := func(p elfimage.Prog) bool {
			if p.Type != q.Type || p == q {
				return p == q
			}
			switch q.Type {
			case elf.PT_LOAD:
				return p.Vaddr == q.Vaddr
			case elf.PT_PHDR, elf.PT_GNU_STACK:
				return true
			}
			if q.Type == elf.PT_NOTE && p.Vaddr == q.Vaddr && (q.Vaddr == r.silenced.addr || q.Vaddr == r.note.addr) {
				return true // a resolution note in the place of another
			}
			return slices.ContainsFunc(r.moved, func(m moved) bool {
				return !f.fresh && q.Vaddr-m.addr < m.size && p.Vaddr-m.newAddr < m.newSize
			})
		}
		isNew := f.fresh && (i == f.seg && r.was == 0 || q.HasBytes() && q.Vaddr-seg.Vaddr < seg.Memsz &&
			q.Vaddr-seg.Vaddr >= r.was)
		if q.Type != elf.PT_NULL && i != im.expendable() && !isNew && !slices.ContainsFunc(progs, same) {
			return fmt.Errorf("%v would be lost", q.Type)
		}
	}
	return nil
}

// prog returns the program header that a record refers to.
func (f *finisher) prog(ref progRef) (q elfimage.Prog, err error) {
	im := f.im
	if ref.same >= 0 {
		if ref.same >= len(im.Progs) {
			return q, errors.New("it names a program header that there is not")
		}
		return im.Progs[ref.same], nil
	}
	q = *ref.Prog
	moves := movableProg(q.Type)
	switch {
	case q.Type == elf.PT_LOAD:
		i := slices.IndexFunc(im.Progs, func(p elfimage.Prog) bool { return p.Type == elf.PT_LOAD && p.Vaddr == q.Vaddr })
		if i < 0 || im.Progs[i].Filesz < q.Filesz {
			return q, errors.New("it names a segment that there is not")
		}
		q.Off, q.Flags = im.Progs[i].Off, im.Progs[i].Flags
	case q.Type == elf.PT_NULL, q.Type == elf.PT_PHDR, q.Type == elf.PT_GNU_STACK:
	case moves, q.Type == elf.PT_GNU_RELRO, q.Type == elf.PT_GNU_EH_FRAME:
		if q.Filesz > 0 {
			if q.Off, moves = im.FileOffset(q.Vaddr, q.Filesz); !moves {
				return q, fmt.Errorf("%v would not be mapped", q.Type)
			}
		}
		if seg := im.Segment(q.Vaddr, 1); q.Type == elf.PT_GNU_RELRO && (seg == nil || seg.Flags&elf.PF_W == 0) {
			return q, errors.New("PT_GNU_RELRO would be elsewhere")
		}
	default:
		return q, fmt.Errorf("it has a %v", q.Type)
	}
	return q, nil
}

// unused makes sure that nothing refers to addresses that are to be no longer mapped.
func (f *finisher) unused(addr, n uint64) error {
	im, within := f.im, func(a uint64) bool { return a-addr < n }
	for _, d := range im.Dynamic {
		if (isPointer(d.Tag) && d.Tag != elf.DT_STRSZ || d.Tag == elf.DT_INIT || d.Tag == elf.DT_FINI ||
			d.Tag == elf.DT_PLTGOT) && within(d.Val) {
			return fmt.Errorf("%v points to what is new", d.Tag)
		}
	}
	for _, q := range f.view.Progs {
		if q.HasBytes() && within(q.Vaddr) {
			return fmt.Errorf("%v is in what is new", q.Type)
		}
	}
	return (&planner{im: im, goal: &goal{}}).unreferenced(block{extent: extent{addr: addr, size: n}})
}

// sections are the section headers that the file is to have.
func (f *finisher) sections() error {
	im, r := f.im, f.r
	f.shoff = im.Shoff
	read := func(off, n uint64) ([]byte, []elfimage.Section) {
		if n == 0 || n > im.size/im.ShdrSize() || off > im.size-n*im.ShdrSize() {
			return nil, nil
		}
		b, err := im.Read(off, n*im.ShdrSize())
		if err != nil {
			return nil, nil
		}
		all := make([]elfimage.Section, n)
		for i := range all {
			all[i] = im.DecodeSection(b[uint64(i)*im.ShdrSize():])
		}
		return b, all
	}
	if !f.fresh && r.table != 0 {
		if b, all := read(r.shoff2, r.shnum2); b != nil && checksum(b) == r.table {
			f.view.Sections, f.shoff, f.whole = all, r.shoff2, true
			return nil
		}
	}
	sections, q := slices.Clone(im.Sections), &im.Progs[f.seg]
	for i := range sections { // of a note that goes a hole stays
		s := &sections[i]
		gone := slices.ContainsFunc(f.view.Progs, func(q elfimage.Prog) bool {
			return q.Type == elf.PT_NOTE && q.Vaddr == s.Addr
		})
		if s.Type == elf.SHT_NOTE && !gone && im.sectionNamed(i, cacheSection) {
			im.makeHole(s)
		}
	}
	for _, w := range r.wide {
		i := slices.IndexFunc(sections, func(s elfimage.Section) bool {
			return s.Addr == w.addr && s.HasBytes() && s.Flags&elf.SHF_ALLOC != 0 && s.Size >= w.size
		})
		if i >= 0 {
			sections[i].Size = w.size
		}
	}
	for i := range sections {
		s := &sections[i]
		if !s.HasBytes() || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		for _, m := range r.moved {
			if f.fresh {
				m = moved{m.newAddr, m.newSize, m.addr, m.size}
			}
			if s.Addr < m.addr || s.Addr+s.Size > m.addr+m.size || m.addr == m.newAddr && s.Size != m.size {
				continue
			}
			if s.Addr+s.Size == m.addr+m.size {
				s.Size += m.newSize - m.size
			}
			s.Addr += m.newAddr - m.addr
			if s.Type == elf.SHT_STRTAB && s.Addralign > 1 && s.Addr%s.Addralign != 0 {
				s.Addralign = 1
			}
			off, ok := f.view.FileOffset(s.Addr, s.Size)
			if !ok {
				return fmt.Errorf("%s would not be mapped", im.SectionName(i))
			}
			s.Off = off
			break
		}
	}
	for i := len(sections) - 1; i > 0; i-- {
		s := &sections[i]
		old := slices.ContainsFunc(r.moved, func(m moved) bool { return s.Addr >= m.addr && s.Addr+s.Size <= m.addr+m.size })
		cover := isCover(s) && im.SectionName(i) == "" && (old || s.Addr >= q.Vaddr && s.Addr+s.Size <= q.Vaddr+q.Memsz)
		if !cover && !(f.fresh && s.HasBytes() && s.Flags&elf.SHF_ALLOC != 0 && s.Addr >= q.Vaddr+r.was &&
			s.Addr < q.Vaddr+q.Memsz) {
			continue
		}
		if i == len(sections)-1 {
			sections = sections[:i]
		} else {
			*s = elfimage.Section{} // one that counts no longer
		}
	}
	f.view.Sections = sections
	loaded := func(all []elfimage.Section) (out []elfimage.Section) {
		return slices.DeleteFunc(slices.Clone(all), func(s elfimage.Section) bool { return s.Flags&elf.SHF_ALLOC == 0 })
	}
	if _, all := read(r.shoff, r.shnum); f.fresh && len(all) == len(sections) &&
		slices.Equal(loaded(all), loaded(sections)) {
		f.view.Sections, f.shoff = all, r.shoff // nobody has been at those of before
	}
	return nil
}

// note lets the resolution note count that is right for what .dynamic says. c asks for it.
func (f *finisher) note() (c Change, writes []write, err error) {
	im, r, want := f.im, f.r, f.r.note
	if f.fresh {
		want = r.silenced
	}
	now, err := f.view.resolutionNote()
	if err != nil || now == nil || !now.Silent {
		return c, nil, err
	}
	none := ""
	c.ResolutionNote = &none
	if off, ok := im.FileOffset(want.addr, want.size); ok && off == now.Off && want.size == now.Size &&
		want.size > noteHead {
		sum, err := im.sum(off+noteHead, want.size-noteHead)
		if err == nil && sum == want.sum {
			word := make([]byte, 4)
			im.Order.PutUint32(word, elfimage.CacheType)
			c.ResolutionNote = &now.Description
			return c, []write{{off: off + noteTypeAt, data: word}}, nil
		}
	}
	return c, nil, nil
}

// scrub zeroes what is dead, as far as it is not yet.
func (f *finisher) scrub(d deadSpan) error {
	im, off := f.im, d.addr
	if !d.unmapped {
		var ok bool
		if off, ok = im.FileOffset(d.addr, d.size); !ok {
			return nil // strip has dropped it
		}
	}
	if d.size > im.size || off > im.size-d.size {
		return nil
	}
	view := f.view
	for _, head := range []span{{0, view.EhdrSize()}, {view.Phoff, uint64(len(view.Progs)) * view.PhdrSize()},
		{f.shoff, uint64(len(view.Sections)) * view.ShdrSize()}} {
		if off < head.end() && head.off < off+d.size {
			return errors.New("headers would be removed")
		}
	}
	b, err := im.Read(off, d.size)
	if err != nil {
		return err
	}
	if isZero(b) {
		return nil
	}
	first := alignUp(off+1, elfimage.PageSize) - off // a write can stop between pages
	torn := first < d.size && isZero(b[:first])
	if checksum(b) != d.sum && !torn {
		if d.unmapped {
			return nil
		}
		return errors.New("what was to be removed has been changed since")
	}
	f.zero(span{off, d.size})
	return nil
}

// symbols lets those that name what has moved name its new place.
func (f *finisher) symbols() error {
	var blocks []block
	im := f.im
	for _, m := range f.r.moved {
		b := block{extent: extent{addr: m.addr, size: m.size}, newAddr: m.newAddr}
		for i := range f.view.Sections {
			if s := &f.view.Sections[i]; s.HasBytes() && s.Addr >= m.newAddr && s.Addr+s.Size <= m.newAddr+m.newSize &&
				m.addr != m.newAddr {
				b.sections = append(b.sections, i)
			}
		}
		if d := im.Prog(elf.PT_DYNAMIC); d != nil && d.Vaddr == m.newAddr {
			b.rank = rankDynamic
		}
		blocks = append(blocks, b)
	}
	now := f.view.Sections
	defer func() { f.view.Sections = now }()
	f.view.Sections = slices.Clone(now)
	for _, b := range blocks { // as symbols say it
		for _, i := range b.sections {
			f.view.Sections[i].Addr += b.addr - b.newAddr
		}
	}
	writes, err := (&planner{im: f.view, goal: &goal{}}).symbolWrites(blocks, im.StrAddr)
	f.writes = append(f.writes, writes...)
	return err
}

// alone takes the flag away where there is no record that fits. Where the edit left none, strings that nothing refers
// to are what it was to remove.
func (f *finisher) alone(scrub bool) (*Edit, error) {
	im := f.im
	if err := f.look(); err != nil {
		return nil, err
	}
	q := &f.view.Progs[f.seg]
	if q.Flags&recorded != 0 {
		done, err := f.shrink(q)
		if err != nil {
			return nil, err
		}
		scrub = scrub && !done
		f.uncover()
	}
	if scrub {
		if err := f.strays(); err != nil {
			return nil, err
		}
		if err := f.strayNotes(); err != nil {
			return nil, err
		}
		f.shortNote()
	}
	e := &Edit{im: im, size: int64(im.size), finishes: true}
	q.Flags &^= elfimage.Editing | recorded
	headers := im.sectionWrites(&layout{sections: f.view.Sections, shoff: im.Shoff})
	e.writes = slices.Concat(headers, f.writes, []write{im.progAt(f.seg, *q)})
	return e, e.verified(f.view, Change{}, f.claims)
}

// uncover lets sections say of what .dynamic refers to in the segment of the edit what that says, and those that were
// over all of the segment for the time end before.
func (f *finisher) uncover() {
	im, q, sections := f.im, &f.im.Progs[f.seg], f.view.Sections
	for i := range sections {
		s := &sections[i]
		tag, table := elfimage.TableOfSection(s.Type)
		d, ok := im.Dyn(tag)
		size := s.Size
		if tag == elf.DT_STRTAB {
			table, size = i == im.StringSection(), im.StrSize
		}
		if !table || !ok || !s.HasBytes() || s.Flags&elf.SHF_ALLOC == 0 ||
			d.Val-q.Vaddr >= q.Memsz && s.Addr-q.Vaddr >= q.Memsz {
			continue
		}
		if off, ok := im.FileOffset(d.Val, size); ok {
			s.Off, s.Addr, s.Size = off, d.Val, size
		}
	}
	loaded := func(s *elfimage.Section) bool { return s.HasBytes() && s.Flags&elf.SHF_ALLOC != 0 }
	for c := range sections {
		cover := &sections[c]
		larger := c != im.StringSection() && loaded(cover) && cover.Addr < im.StrAddr && im.StrAddr-cover.Addr < cover.Size
		if !larger && !(isCover(cover) && im.SectionName(c) == "") {
			continue
		}
		for i := range sections {
			if s := &sections[i]; i != c && loaded(s) && s.Addr-cover.Addr < cover.Size {
				cover.Size = s.Addr - cover.Addr
			}
		}
	}
}

// shrink lets the segment end where what is in it does, where a record has been and is cleared: it was the last thing
// to do.
func (f *finisher) shrink(q *elfimage.Prog) (done bool, err error) {
	im, end := f.im, uint64(0)
	for i := range im.Sections {
		if s := &im.Sections[i]; s.HasBytes() && s.Flags&elf.SHF_ALLOC != 0 && s.Addr >= q.Vaddr &&
			s.Addr+s.Size <= q.Vaddr+q.Filesz {
			end = max(end, s.Addr+s.Size-q.Vaddr)
		}
	}
	if strings := im.StrAddr - q.Vaddr; im.hasDynamic() && strings < q.Filesz && strings+im.StrSize <= q.Filesz {
		end = max(end, strings+im.StrSize)
	}
	if end == 0 || q.Filesz != q.Memsz || q.Filesz-end < recordSpace(0, 0, 0) {
		return false, nil
	}
	if done, err = im.zeros(q.Off+end, q.Filesz-end); done {
		q.Filesz, q.Memsz = end, end
	}
	return done, err
}

// strayNotes makes holes of resolution notes that no program header names any more.
func (f *finisher) strayNotes() error {
	im := f.im
	for i := range im.Sections {
		s := &im.Sections[i]
		named := slices.ContainsFunc(im.Progs, func(q elfimage.Prog) bool {
			return q.Type == elf.PT_NOTE && q.Vaddr == s.Addr
		})
		whole := s.Type == elf.SHT_NOTE && im.sectionNamed(i, cacheSection)
		if named || s.Flags != elf.SHF_ALLOC || !s.HasBytes() || s.Size > maxNoteRoom ||
			!whole && !(s.Type == elf.SHT_PROGBITS && im.sectionNamed(i, cacheName)) {
			continue
		}
		if whole {
			im.makeHole(&f.view.Sections[i])
		}
		if zero, err := im.zeros(s.Off, s.Size); err != nil {
			return err
		} else if !zero {
			f.zero(span{s.Off, s.Size})
		}
	}
	return nil
}

// shortNote lets the section of a resolution note that has become shorter end where the note does, and that of its room
// follow.
func (f *finisher) shortNote() {
	im := f.im
	for i := range im.Sections {
		s := &f.view.Sections[i]
		if s.Type != elf.SHT_NOTE || !im.sectionNamed(i, cacheSection) {
			continue
		}
		q := slices.IndexFunc(im.Progs, func(q elfimage.Prog) bool {
			return q.Type == elf.PT_NOTE && q.Vaddr == s.Addr && q.Off == s.Off
		})
		room := slices.IndexFunc(f.view.Sections, func(r elfimage.Section) bool {
			return r.Type == elf.SHT_PROGBITS && r.Flags == elf.SHF_ALLOC && r.Addr == s.Addr+s.Size &&
				im.nameAt(r.NameOff, cacheName)
		})
		if q < 0 || room < 0 || im.Progs[q].Filesz >= s.Size {
			continue
		}
		r, less := &f.view.Sections[room], s.Size-im.Progs[q].Filesz
		s.Size -= less
		r.Off, r.Addr, r.Size = r.Off-less, r.Addr-less, r.Size+less
	}
}

// zero lets a range of the file become zeros.
func (f *finisher) zero(s span) {
	f.claims.free = append(f.claims.free, s)
	f.writes = append(f.writes, write{off: s.off, data: zero(s.size)})
}

// strays zeroes the strings of the dynamic string table that nothing refers to.
func (f *finisher) strays() error {
	im := f.im
	if !im.hasDynamic() || im.StrSize == 0 {
		return nil
	}
	table, err := im.readTable()
	if err != nil {
		return err
	}
	alive := make([]bool, len(table))
	alive[0] = true
	ref := func(off, _ uint64) {
		for ; off < uint64(len(table)) && table[off] != 0 && !alive[off]; off++ {
			alive[off] = true
		}
	}
	for _, d := range im.Dynamic {
		if elfimage.IsStringTag(d.Tag) {
			ref(d.Val, 0)
		}
	}
	if complete, err := im.EachStringRef(ref); !complete || err != nil {
		return err
	}
	for at := 0; ; at += len(roomMark) { // the marks of rooms, those of earlier copies of the table too
		i := bytes.Index(table[at:], roomMarkBytes)
		if i < 0 {
			break
		}
		at += i
		ref(uint64(at), 0)
	}
	for at := 0; at < len(table); at++ {
		from := at
		for at < len(table) && !alive[at] {
			at++
		}
		if !isZero(table[from:at]) {
			f.zero(span{im.StrOff + uint64(from), uint64(at - from)})
		}
	}
	return nil
}
