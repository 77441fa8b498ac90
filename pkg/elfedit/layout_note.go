package elfedit

import (
	"bytes"
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// The resolution note has a PT_NOTE and a section of its own, which end with it (patchelf before 0.19 wants only
// bytes of sections in a PT_NOTE). A section of zeros follows, its room. If patchelf takes the note away, that
// section still keeps the segment from being without one, because strip would make the segment fail to load. A note
// that goes leaves another such section, in which the next one is put if it fits.

const (
	noteHead    = 12      // bytes: sizes of name and description, type
	noteTypeAt  = 8       // of them
	noteName    = 8       // bytes: CacheOwner, padded
	maxNoteRoom = 1 << 20 // bytes: what elfimage reads

	cacheSection = ".note.nixos." + cacheName // patchelf's name for it
	cacheName    = "ldcache"                  // of a section of zeros, a suffix of that
)

// A noteSpot is where a resolution note can be put, and the headers that name it, by index, or -1.
type noteSpot struct {
	place               // all that it has
	prog, section, hole int
	said                uint64 // bytes of it that the old note has
	named               uint32 // sh_name of cacheSection
	fresh               bool   // the edit makes it
}

// leastHole is the smallest section of zeros, in bytes.
const leastHole = 16

// noteSize returns the size in bytes of a note with a description.
func noteSize(desc string) uint64 { return noteHead + noteName + alignUp(uint64(len(desc)), 4) }

// putNote writes a note to b, and zeros after it.
func (im *image) putNote(b []byte, desc string) {
	clear(b)
	im.Order.PutUint32(b, uint32(len(elfimage.CacheOwner)+1))
	im.Order.PutUint32(b[4:], uint32(len(desc)))
	im.Order.PutUint32(b[noteTypeAt:], elfimage.CacheType)
	copy(b[noteHead:], elfimage.CacheOwner)
	copy(b[noteHead+noteName:], desc)
}

// note compares the resolution note that a change asks for with the file's.
func (g *goal) note(im *image, c Change) error {
	stale := c.RunPath != nil || c.Needed != nil || g.interp != nil
	if c.ResolutionNote == nil && !stale {
		return nil
	}
	now, err := im.ResolutionCache()
	if err != nil {
		return err
	}
	switch want := c.ResolutionNote; {
	case want != nil && *want != "" && (now == nil || now.Description != *want ||
		now.Section >= 0 && im.Sections[now.Section].Size != now.Size):
		g.cache, g.desc = now, *want
	case now != nil && (want == nil || *want == ""):
		g.cache = now
	}
	if g.cache == nil {
		return nil
	}
	all, err := im.ResolutionCaches()
	g.passed = slices.DeleteFunc(all, func(c elfimage.ResolutionCache) bool { return c.Off == g.cache.Off })
	return err
}

// noteSpot returns where in the file the note can be put without another segment, or nil.
func (p *planner) noteSpot() (*noteSpot, error) {
	im, need := p.im, noteSize(p.goal.desc)
	if p.newNote {
		return nil, nil
	}
	var best *noteSpot
	try := func(s noteSpot) error {
		seg := im.Segment(s.addr, s.size)
		if s.size == 0 || seg == nil || seg.Off == s.off || s.off-seg.Off != s.addr-seg.Vaddr || (s.off|s.addr)%4 != 0 {
			return nil
		}
		rest := uint64(0)
		s.hole = -1
		named, ok := im.offsetOfName(s.section, cacheSection)
		if s.named = named; !ok {
			return nil
		}
		for i := range im.Sections {
			h := &im.Sections[i]
			if zero, err := im.isNoteHole(i); zero && h.Off == s.off+s.size && h.Addr == s.addr+s.size {
				s.hole, s.size, rest = i, s.size+h.Size, leastHole
				break
			} else if err != nil {
				return err
			}
		}
		if s.size >= need+rest && (best == nil || s.size < best.size) {
			best = &s
		}
		return nil
	}
	if c := p.goal.cache; c != nil {
		if c.Prog < 0 || c.Section < 0 {
			return nil, nil
		}
		q, size := &im.Progs[c.Prog], im.Sections[c.Section].Size
		if at, ok := im.FileOffset(q.Vaddr, q.Filesz); !ok || at != q.Off || q.Align == 8 || !p.alone(q) || size < c.Size {
			return nil, nil
		}
		err := try(noteSpot{place: place{q.Off, q.Vaddr, size}, prog: c.Prog, section: c.Section, said: c.Size})
		return best, err
	}
	for i := range im.Sections {
		s := &im.Sections[i]
		if hole, err := im.isNoteHole(i); err != nil {
			return nil, err
		} else if hole {
			if err := try(noteSpot{place: place{s.Off, s.Addr, s.Size}, prog: -1, section: i}); err != nil {
				return nil, err
			}
		}
	}
	return best, nil
}

// offsetOfName returns the sh_name with which section i has a name that ends with the one that it has.
func (im *image) offsetOfName(i int, name string) (uint32, bool) {
	for _, before := range []int{0, len(cacheSection) - len(cacheName)} {
		if at := im.Sections[i].NameOff; int64(at) >= int64(before) && im.nameAt(at-uint32(before), name) {
			return at - uint32(before), true
		}
	}
	return 0, false
}

// layNote gives the goal's note a place in a layout, or a program header for the place that inNewSegment gives it. It
// takes the old note away.
func (p *planner) layNote(l *layout) {
	im, g := p.im, p.goal
	if l.note == nil || l.note.said == 0 {
		l.dropNote(im, g)
	}
	if g.desc == "" {
		return
	}
	if l.note == nil {
		l.note = &noteSpot{prog: -1, section: -1, hole: -1, fresh: true}
	}
	n := l.note
	if n.prog < 0 {
		n.prog = p.unusedProg(l)
	}
	if n.prog < 0 {
		n.prog = len(l.progs)
		l.progs = append(l.progs, elfimage.Prog{})
	}
	if n.fresh {
		l.progs[n.prog] = elfimage.Prog{Type: elf.PT_NOTE}
	} else {
		p.nameNote(l)
	}
}

// nameNote makes the headers say where the note is.
func (p *planner) nameNote(l *layout) {
	im, n, size := p.im, l.note, noteSize(p.goal.desc)
	q := elfimage.Prog{Type: elf.PT_NOTE, Flags: elf.PF_R, Off: n.off, Vaddr: n.addr, Paddr: n.addr, Filesz: size,
		Memsz: size, Align: 4}
	if seg := im.Segment(n.addr, n.size); seg != nil {
		q.Paddr += seg.Paddr - seg.Vaddr
	}
	l.progs[n.prog] = q
	set := func(i *int, s elfimage.Section) {
		if *i < 0 {
			*i = len(l.sections)
			l.sections = append(l.sections, s)
		}
		l.sections[*i] = s
	}
	l.ownSections(im)
	set(&n.section, elfimage.Section{NameOff: n.named, Type: elf.SHT_NOTE, Flags: elf.SHF_ALLOC, Addr: n.addr, Off: n.off,
		Size: size, Addralign: 4})
	if n.named > 0 && (n.hole >= 0 || n.fresh) {
		set(&n.hole, elfimage.Section{NameOff: n.named + uint32(len(cacheSection)-len(cacheName)), Type: elf.SHT_PROGBITS,
			Flags: elf.SHF_ALLOC,
			Addr:  n.addr + size, Off: n.off + size, Size: n.size - size, Addralign: 4})
	}
}

// addNote puts the note into a new segment, with room for it to grow, and gives it headers.
func (n *newSegment) addNote() error {
	p, l := n.p, n.l
	im, size := p.im, noteSize(p.goal.desc)
	room := size + size/4 + 64       // more than leastHole
	if c := p.goal.cache; c != nil { // whenever it does not fit, the file grows by at least half
		room = max(room, 2*c.Size)
	}
	s := l.note
	s.size = alignUp(room, 4)
	s.place = n.reserve(s.size, 4, 0)
	im.putNote(n.bytes(s.off, s.size), p.goal.desc)
	named, err := n.t.addName(im, cacheSection)
	if err != nil {
		return err
	}
	s.named = named
	l.sections = n.t.sections
	p.nameNote(l)
	n.t.sections = l.sections
	return nil
}

// addName adds a name to the section names, if they move, and returns its offset; else 0, which is no name.
func (t *trailer) addName(im *image, name string) (uint32, error) {
	if t.moving < 0 {
		return 0, nil
	}
	s := &im.Sections[im.Shstrndx]
	b, err := im.Read(s.Off, s.Size)
	if err != nil || len(b) == 0 || b[len(b)-1] != 0 {
		return 0, err
	}
	if at := bytes.Index(b, []byte("\x00"+name+"\x00")); at >= 0 {
		return uint32(at) + 1, nil
	}
	t.names = name + "\x00"
	return uint32(s.Size), nil
}

// goesWhole reports whether nothing is left of the note that goes. Among other notes it becomes one of type 0,
// because its sizes must stay.
func (g *goal) goesWhole() bool { return g.cache != nil && g.cache.Prog >= 0 }

// dropNote makes the headers no longer name the old note. Its segment stays, with a section of zeros, because strip
// makes a PT_LOAD without a section one that does not load.
func (l *layout) dropNote(im *image, g *goal) {
	if !g.goesWhole() {
		return
	}
	c := g.cache
	l.progs[c.Prog] = elfimage.Prog{Type: elf.PT_NULL}
	if c.Section >= 0 {
		l.ownSections(im)
		im.makeHole(&l.sections[c.Section])
	}
}

// makeHole makes a note's section one of zeros.
func (im *image) makeHole(s *elfimage.Section) {
	s.Type = elf.SHT_PROGBITS
	if im.nameAt(s.NameOff, cacheSection) {
		s.NameOff += uint32(len(cacheSection) - len(cacheName))
	}
}

// mute zeros a note, as a whole or except for its sizes and owner, in its place or in the copy of a moving block.
func (l *layout) mute(c *elfimage.ResolutionCache, whole bool) {
	parts := []span{{c.Off + noteTypeAt, noteHead - noteTypeAt}, {c.Off + noteHead + noteName, c.Size - noteHead - noteName}}
	if whole {
		parts = []span{{c.Off, c.Size}}
	}
	for _, s := range parts {
		l.scrub(span{l.now(s.off, s.size), s.size}) // an old place is dead anyway
	}
}
