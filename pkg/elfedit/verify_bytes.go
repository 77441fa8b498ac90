package elfedit

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// A BugError is an edit that would have damaged the file, because of a bug in this package. The file has not been
// touched.
type BugError struct{ Reason string }

func (e *BugError) Error() string {
	return "internal error, nothing was written: the planned edit " + e.Reason + "; please report it, with the file"
}

func bug(format string, args ...any) error { return &BugError{fmt.Sprintf(format, args...)} }

// allBytes compares the changed bytes with their old owners. An owned byte may change if its owner has moved with the
// same content, or if the change is about it. A byte of a segment without an owner may not change at all, because
// somebody may use it.
func (v *verifier) allBytes(changed []span) error {
	if n := len(v.before.Sections); len(v.after.Sections) < n {
		return bug("leaves %d section headers of %d", len(v.after.Sections), n)
	}
	if err := v.resolutionNote(); err != nil {
		return err
	}
	if err := v.progs(); err != nil {
		return err
	}
	for _, s := range changed {
		if err := v.compare(s, s.off); err != nil {
			return err
		}
	}
	for _, o := range v.owners {
		if err := v.moved(o); err != nil {
			return err
		}
	}
	for _, step := range []func() error{v.relocated, v.sections, v.segments, v.dynamic, v.sharedStrings} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// resolutionNote checks that the resolution note says what the change asks for. Otherwise it must say what it said,
// or nothing if that contradicts what changes.
func (v *verifier) resolutionNote() error {
	c := v.c
	was, err := v.before.ResolutionCache()
	if err != nil {
		return err
	}
	interp, err := v.before.Interpreter()
	if err != nil {
		return err
	}
	same := c.Interpreter == nil || *c.Interpreter == interp
	is, err := v.after.ResolutionCache()
	if err != nil {
		return bug("leaves notes that cannot be read: %v", err)
	}
	want := ""
	switch stale := c.RunPath != nil || c.Needed != nil || !same; {
	case c.ResolutionNote != nil:
		want = *c.ResolutionNote
	case was != nil && !stale:
		want = was.Description
	}
	now := ""
	if is != nil {
		now = is.Description
	}
	if now != want {
		return bug("leaves the resolution note %.200q", now)
	}
	if was != nil && is != nil && was.Description == want && (was.Section < 0 ||
		v.before.Sections[was.Section].Size == was.Size) {
		return nil
	}
	v.cache, v.note = was, is
	if v.notes, err = v.before.ResolutionCaches(); err != nil {
		return err
	}
	if is == nil {
		return nil
	}
	// It has its own program header and section, is mapped, and takes nothing else's place.
	if is.Prog < 0 || is.Section < 0 {
		return bug("leaves the resolution note without headers of its own")
	}
	p := &v.after.Progs[is.Prog]
	if off, ok := v.after.FileOffset(p.Vaddr, p.Filesz); !ok || off != p.Off || p.Align != 4 || p.Flags != elf.PF_R ||
		p.Memsz != p.Filesz {
		return bug("leaves a resolution note that is not mapped")
	}
	if s := &v.after.Sections[is.Section]; s.Flags != elf.SHF_ALLOC || s.Addr != p.Vaddr || s.Size != is.Size ||
		s.Addralign != 4 {
		return bug("leaves a section of the resolution note that is elsewhere")
	}
	for _, o := range v.after.Owners() {
		own := o.Kind == elfimage.OfSection && o.Index == is.Section || o.Kind == elfimage.OfSegment && o.Index == is.Prog
		if !own && o.Off < p.Off+p.Filesz && p.Off < o.End() {
			return bug("puts the resolution note over what is at offset %#x", o.Off)
		}
	}
	return nil
}

// ofNote reports whether bytes from an offset on changed only in a resolution note that goes, and in zeros where one
// comes.
func (v *verifier) ofNote(off uint64, was, is []byte) bool {
	if v.cache == nil && v.note == nil {
		return false
	}
	within := func(c *elfimage.ResolutionCache, at uint64) bool { return c != nil && at >= c.Off && at < c.Off+c.Size }
	passed := func(at uint64) bool { // the type or text of another note that no longer counts
		return slices.ContainsFunc(v.notes, func(c elfimage.ResolutionCache) bool {
			return within(&c, at) && (at-c.Off >= noteTypeAt && at-c.Off < noteHead || at-c.Off >= noteHead+noteName)
		})
	}
	for i, b := range was {
		if at := off + uint64(i); b != is[i] && !within(v.cache, at) && !(b == 0 && within(v.note, at)) &&
			!(is[i] == 0 && passed(at)) {
			return false
		}
	}
	return true
}

// compare checks a range of the old file against what is at an offset afterwards.
func (v *verifier) compare(s span, at uint64) error {
	const piece = 64 << 10
	for end := min(s.end(), v.before.size); s.off < end; s.off, at = s.off+piece, at+piece {
		b, err := v.after.Read(at, min(piece, end-s.off))
		if err == nil {
			err = v.bytes(s.off, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bytes checks a change of the file's bytes at an offset.
func (v *verifier) bytes(off uint64, b []byte) error {
	old, err := v.before.Read(off, uint64(len(b)))
	if err != nil {
		return err
	}
	if bytes.Equal(old, b) {
		return nil
	}
	// Owner by owner, with what is between them.
	part := func(from, to uint64) (was, is []byte) { return old[from-off : to-off], b[from-off : to-off] }
	at, end := off, off+uint64(len(b)) // up to at the bytes have an owner
	between := func(to uint64) error {
		was, is := part(at, to)
		if isZero(was) && v.unowned(at, to, was) == nil {
			return nil // so is each part
		}
		return eachDifference(was, is, func(x, y uint64) error { return v.unowned(at+x, at+y, was[x:y]) })
	}
	for i := range v.owners {
		o := &v.owners[i]
		if o.Off >= end { // so are all others
			break
		}
		from, to := max(off, o.Off), min(end, o.End())
		if from >= to {
			continue
		}
		if from > at {
			if err := between(from); err != nil {
				return err
			}
		}
		at = max(at, to)
		if was, is := part(from, to); !bytes.Equal(was, is) {
			if err := v.touch(*o, from, was, is); err != nil {
				return err
			}
		}
	}
	if at < end {
		return between(end)
	}
	return nil
}

// hasMoved reports whether a PT_LOAD has moved in the file.
func (v *verifier) hasMoved(i int) bool {
	p := v.sameProg(i)
	return p != nil && p.Off != v.before.Progs[i].Off
}

// relocated checks that a segment that has moved in the file has its old bytes, except for what the change is about,
// and zeros where it had none.
func (v *verifier) relocated() error {
	for i, p := range v.before.Progs {
		if p.Type != elf.PT_LOAD || !v.hasMoved(i) {
			continue
		}
		now := v.sameProg(i)
		if now.Vaddr != p.Vaddr || now.Filesz < p.Memsz {
			return bug("moves the segment at address %#x", p.Vaddr)
		}
		v.moving = true
		if err := v.compare(span{p.Off, p.Filesz}, now.Off); err != nil {
			return err
		}
		v.moving = false
		if zero, err := v.after.zeros(now.Off+p.Filesz, p.Memsz-p.Filesz); !zero || err != nil {
			return bug("leaves .bss with something in it")
		}
	}
	return nil
}

// eachDifference calls do for each run of bytes in which two slices of one length differ.
func eachDifference(a, b []byte, do func(from, to uint64) error) error {
	const block = 64
	for i := 0; i < len(a); i++ {
		for i+block <= len(a) && bytes.Equal(a[i:i+block], b[i:i+block]) {
			i += block
		}
		if i == len(a) || a[i] == b[i] {
			continue
		}
		from := i
		for i < len(a) && a[i] != b[i] {
			i++
		}
		if err := do(uint64(from), uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// unowned checks a change of bytes without an owner: zeros between owned bytes, and what patchelf fills holes with.
func (v *verifier) unowned(from, to uint64, old []byte) error {
	const padding = 16 // bytes, the largest alignment that tables have
	mapped, left := false, false
	for i, p := range v.before.Progs {
		if p.Type == elf.PT_LOAD && from < p.Off+p.Filesz && p.Off < to {
			mapped, left = mapped || !v.hasMoved(i), left || v.hasMoved(i)
		}
	}
	if v.moving {
		mapped = true
	} else if left && !mapped { // relocated compares the copy
		return nil
	}
	zero := isZero(old)
	sections := len(v.before.Sections) > 0
	switch {
	case zero && (!mapped || sections || to-from < padding):
		return nil
	// the hole that our last edit has left behind the program headers
	case zero && from >= v.before.Phoff && v.before.findRoom().size > 0:
		return nil
	case from >= v.before.tableEnd() && to <= v.before.staleEnd():
		return nil
	case sections && mapped && filler(old) == len(old):
		return nil
	}
	return bug("changes bytes of unknown use at offset %#x", from)
}

// allowance says which changes of an owner's bytes are allowed, in their old and new places.
type allowance int

const (
	noChange    allowance = iota
	anything              // nothing is there, or values are compared
	anyText               // read back as a value, of any size
	anyValue              // read back as a value, of the same size
	someFields            // those of the ELF header with the places of tables and the OS ABI
	someStrings           // those that sharedStrings accepts
	someSymbols           // values of symbols of what has moved
)

// allowed is the table of them.
func (v *verifier) allowed(o elfimage.Owner) allowance {
	c := &v.c
	switch {
	case v.staleStrings(o), v.overgrown(o), o.Kind == elfimage.OfSection && o.Index == v.before.anchorSection(),
		o.Kind == elfimage.ProgramHeaders, o.Kind == elfimage.SectionHeaders, v.isDynamic(o):
		return anything
	case o.Kind == elfimage.FileHeader:
		return someFields
	case c.Interpreter != nil && v.isInterpreter(o):
		return anyText
	case len(c.ClearVersions) > 0 && v.is(o, elf.DT_VERSYM, elf.SHT_GNU_VERSYM),
		c.Needed != nil && len(c.Needed.Renamed) > 0 && v.is(o, elf.DT_VERNEED, elf.SHT_GNU_VERNEED):
		return anyValue
	case v.isStrings(o):
		return someStrings
	case v.is(o, elf.DT_SYMTAB, elf.SHT_SYMTAB, elf.SHT_DYNSYM):
		return someSymbols
	}
	return noChange
}

// touch checks a change of an owner's bytes from an offset on.
func (v *verifier) touch(o elfimage.Owner, from uint64, was, is []byte) error {
	how := v.allowed(o)
	switch {
	case how == anything, how == anyText, how == anyValue, v.ofNote(from, was, is):
		return nil
	case how == someStrings && (v.after.StrAddr != v.before.StrAddr || v.after.StrOff != v.before.StrOff):
		return nil // moved compares the copy
	case how == someStrings:
		return eachDifference(was, is, func(x, y uint64) error {
			v.strings = append(v.strings, span{from - v.before.StrOff + x, y - x})
			return nil
		})
	case how == someFields:
		return eachDifference(was, is, func(x, y uint64) error { return v.fileHeader(from+x, from+y) })
	case (o.Kind == elfimage.OfSection || o.Kind == elfimage.OfSegment) && from >= v.before.Phoff &&
		from+uint64(len(was)) <= v.before.tableEnd():
		return nil // another tool's section over the program headers, whose values are compared
	}
	now, there := v.now(o)
	switch {
	case o.Kind == elfimage.OfSegment && !there:
		return nil // a program header that is replaced; what it describes has other owners
	case now.off != o.Off:
		return nil // it is elsewhere: see moved
	case how == someSymbols:
		return eachDifference(was, is, func(x, y uint64) error { return v.symbols(o, now, from-o.Off+x, from-o.Off+y) })
	}
	return bug("overwrites %s at offset %#x", v.name(o), from)
}

func (v *verifier) fileHeader(from, to uint64) error {
	w := v.before.WordSize()
	// e_shoff, e_phnum, e_shnum
	for _, field := range []span{{elf.EI_OSABI, 1}, {24 + 2*w, w}, {24 + 3*w + 8, 2}, {24 + 3*w + 12, 2}} {
		if from >= field.off && to <= field.end() {
			return nil
		}
	}
	return bug("changes the ELF header at offset %#x", from)
}

func (v *verifier) isStrings(o elfimage.Owner) bool {
	return o.Kind == elfimage.OfDynamic && o.Tag == elf.DT_STRTAB ||
		o.Kind == elfimage.OfSection && o.Index == v.before.stringSection()
}

// staleStrings recognizes a string table's section header that contradicts DT_STRTAB and DT_STRSZ.
func (v *verifier) staleStrings(o elfimage.Owner) bool {
	return o.Kind == elfimage.OfSection && o.Index == v.before.stringSection() &&
		(o.Addr != v.before.StrAddr || o.Size != v.before.StrSize)
}

func (v *verifier) isDynamic(o elfimage.Owner) bool {
	return o.Kind == elfimage.OfSection && v.before.Sections[o.Index].Type == elf.SHT_DYNAMIC &&
		o.Off == v.before.DynOff ||
		o.Kind == elfimage.OfSegment && v.before.Progs[o.Index].Type == elf.PT_DYNAMIC
}

func (v *verifier) isInterpreter(o elfimage.Owner) bool {
	p := v.before.Prog(elf.PT_INTERP)
	return p != nil && (o.Kind == elfimage.OfSection && o.Index == v.before.interpSection() ||
		(o.Kind == elfimage.OfSection || o.Kind == elfimage.OfSegment) && o.Off == p.Off && o.Size == p.Filesz)
}

// is reports whether an owner is the table of a dynamic entry, or a section of a type.
func (v *verifier) is(o elfimage.Owner, tag elf.DynTag, types ...elf.SectionType) bool {
	return o.Kind == elfimage.OfDynamic && o.Tag == tag || o.Kind == elfimage.OfSection &&
		slices.Contains(types, v.before.Sections[o.Index].Type)
}

func (v *verifier) name(o elfimage.Owner) string {
	switch o.Kind {
	case elfimage.OfSection:
		return "section " + v.before.SectionName(o.Index)
	case elfimage.OfSegment:
		return "what " + v.before.Progs[o.Index].Type.String() + " describes"
	case elfimage.OfDynamic:
		return "what " + o.Tag.String() + " points to"
	}
	return "a header"
}

// now returns an owner's new place.
func (v *verifier) now(o elfimage.Owner) (place, bool) {
	switch o.Kind {
	case elfimage.OfSection:
		s := &v.after.Sections[o.Index]
		if !s.HasBytes() { // zeros that the file holds
			off, mapped := v.after.FileOffset(s.Addr, s.Size)
			return place{off, s.Addr, s.Size}, mapped
		}
		return place{s.Off, s.Addr, s.Size}, true
	case elfimage.OfDynamic:
		d, ok := v.after.Dyn(o.Tag)
		off, mapped := v.after.FileOffset(d.Val, o.Size)
		return place{off, d.Val, o.Size}, ok && mapped
	case elfimage.OfSegment:
		if p := v.sameProg(o.Index); p != nil {
			return place{p.Off, p.Vaddr, p.Filesz}, true
		}
		return place{}, false
	}
	return place{o.Off, o.Addr, o.Size}, true
}

// sameProg returns the new program header for an old one's index: the one at the same position among those of its
// type. nil: there is none.
func (v *verifier) sameProg(i int) *elfimage.Prog {
	if v.same == nil {
		v.same = v.sameProgs()
	}
	return v.same[i]
}

// sameProgs is sameProg for all, in time that grows with their number.
func (v *verifier) sameProgs() []*elfimage.Prog {
	// 1 + the index of the next of each type; 0: none is left
	first, next := map[elf.ProgType]int{}, make([]int, len(v.after.Progs))
	for j, p := range slices.Backward(v.after.Progs) {
		if !v.isNew(j) {
			next[j], first[p.Type] = first[p.Type], j+1
		}
	}
	same := make([]*elfimage.Prog, len(v.before.Progs))
	for i, p := range v.before.Progs {
		if j := first[p.Type] - 1; j >= 0 && !v.isCache(i) {
			same[i], first[p.Type] = &v.after.Progs[j], next[j]
		}
	}
	for t, j := range first {
		for ; j > 0; j = next[j-1] {
			v.added = append(v.added, t)
		}
	}
	return same
}

// overgrown recognizes a note over which patchelf has made the program header table grow, leaving its program header
// behind.
func (v *verifier) overgrown(o elfimage.Owner) bool {
	return o.Kind == elfimage.OfSegment && movableProg(v.before.Progs[o.Index].Type) && o.Off < v.before.tableEnd() &&
		v.before.Phoff < o.End()
}

// isNew reports whether a new program header belongs to a resolution note in a place where none was.
func (v *verifier) isNew(prog int) bool {
	return v.note != nil && v.note.Prog == prog && !slices.Contains(v.before.Progs, v.after.Progs[prog]) &&
		(v.cache != nil && v.cache.Prog >= 0 || !slices.ContainsFunc(v.before.Progs, func(p elfimage.Prog) bool {
			return p.Type == elf.PT_NOTE && p.Off == v.note.Off
		}))
}

// isNoteSection recognizes the section of a resolution note that goes or comes, and of its room.
func (v *verifier) isNoteSection(i int) bool {
	if v.cache == nil && v.note == nil {
		return false
	}
	hole, err := v.before.isNoteHole(i)
	return err == nil && hole || v.cache != nil && v.cache.Section == i || v.note != nil && v.note.Section == i
}

// isCache recognizes the program header of a resolution cache that goes.
func (v *verifier) isCache(prog int) bool {
	return v.cache != nil && v.cache.Prog == prog && !slices.Contains(v.after.Progs, v.before.Progs[prog])
}

// moved checks that what has moved has its content in the new place.
func (v *verifier) moved(o elfimage.Owner) error {
	how := v.allowed(o)
	if how == anything || how == someFields {
		return nil
	}
	now, there := v.now(o)
	switch {
	case !there && o.Kind == elfimage.OfSegment && (o.Index == v.before.expendable() || v.isCache(o.Index)):
		return nil
	case !there:
		return bug("loses %s", v.name(o))
	case o.Kind == elfimage.OfSection && v.isNoteSection(o.Index) && now.off-o.Off == now.addr-o.Addr:
		return nil
	case now.off == o.Off && now.addr == o.Addr:
		if now.size != o.Size && how != someStrings && how != anyText {
			return bug("changes the size of %s", v.name(o))
		}
		return nil
	case how == anyText:
		return nil
	}
	// patchelf gives others an address too
	loaded := o.Kind != elfimage.OfSection || v.before.Sections[o.Index].Flags&elf.SHF_ALLOC != 0
	if loaded && o.Addr != 0 && now.addr != 0 {
		if off, ok := v.after.FileOffset(now.addr, o.Size); !ok || off != now.off && o.Size > 0 {
			return bug("moves %s to an address that is not mapped to it", v.name(o))
		}
	}
	// a new section's name is added to it
	names := v.note != nil && o.Kind == elfimage.OfSection && o.Index == int(v.before.Shstrndx)
	if now.size < o.Size || now.size > o.Size && how != someStrings && !names {
		return bug("changes the size of %s", v.name(o))
	}
	at := uint64(0)
	if o.Kind == elfimage.OfSegment {
		// Any number of headers may name the same bytes. Owners come in order of offset, so one range tells what has
		// been compared.
		by := now.off - o.Off
		if c := v.compared; c.by == by && c.off <= o.Off && o.Off < c.end() {
			at = min(o.Size, c.end()-o.Off)
			v.compared.size = max(c.size, o.End()-c.off)
		} else {
			v.compared = shifted{span{o.Off, o.Size}, by}
		}
	}
	const piece = 16 << 10
	for ; at < o.Size; at += piece {
		n := min(piece, o.Size-at)
		old, err := v.before.Read(o.Off+at, n)
		if err != nil {
			return err
		}
		b, err := v.after.Read(now.off+at, n)
		if err != nil {
			return err
		}
		err = eachDifference(old, b, func(from, to uint64) error {
			switch how {
			case someStrings:
				v.strings = append(v.strings, span{at + from, to - from})
				return nil
			case someSymbols:
				return v.symbols(o, now, at+from, at+to)
			case anyValue:
				return nil
			}
			if v.ofNote(o.Off+at+from, old[from:to], b[from:to]) {
				return nil
			}
			return bug("moves %s and changes it", v.name(o))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// symbols checks that a change in a symbol table, between two offsets in it, is only in values of symbols of what has
// moved.
func (v *verifier) symbols(o elfimage.Owner, now place, from, to uint64) error {
	im, size := v.before, v.before.SymSize()
	first, end := from/size, (to+size-1)/size
	b, err := v.after.Read(now.off+first*size, (end-first)*size)
	if err != nil {
		return err
	}
	old, err := im.Read(o.Off+first*size, uint64(len(b)))
	if err != nil {
		return err
	}
	valueAt := im.SymbolValueAt()
	for ; len(b) > 0; old, b = old[size:], b[size:] {
		shndx, was := im.Symbol(old)
		_, is := im.Symbol(b)
		var sized [24]byte // of the larger class
		rest := append(sized[:0], b[:size]...)
		copy(rest[valueAt:], old[valueAt:valueAt+im.WordSize()])
		by := uint64(0)
		switch {
		case shndx < elf.SHN_LORESERVE && int(shndx) < len(im.Sections):
			if s := &im.Sections[shndx]; was >= s.Addr && was-s.Addr < max(s.Size, 1) {
				by = v.after.Sections[shndx].Addr - s.Addr
			}
		case shndx == elf.SHN_ABS && was == im.Prog(elf.PT_DYNAMIC).Vaddr:
			by = v.after.Prog(elf.PT_DYNAMIC).Vaddr - was
		}
		if !bytes.Equal(rest, old[:size]) || is != was && !v.sameAddress(is-was, by) {
			return bug("changes a symbol in %s", v.name(o))
		}
	}
	return nil
}

// sections checks the fields of section headers other than places.
func (v *verifier) sections() error {
	was, is := v.before.Sections, v.after.Sections
	for i := range is[len(was):] { // over free bytes: see anchor, hold and nameNote
		s := &is[len(was)+i]
		for j := range is {
			if o := &is[j]; o != s && o.HasBytes() && o.Off < s.Off+s.Size && s.Off < o.Off+o.Size ||
				s.Off < v.after.tableEnd() || s.Flags&^elf.SHF_WRITE != elf.SHF_ALLOC {
				return bug("adds a section at offset %#x, where others are", s.Off)
			}
		}
	}
	anchor := v.before.anchorSection()
	for i := range was {
		a, b := was[i], is[i]
		b.Off, b.Addr, b.Size = a.Off, a.Addr, a.Size
		if !was[i].HasBytes() && (is[i].Addr != was[i].Addr || is[i].Size != was[i].Size) && i != anchor {
			return bug("changes the section header of %s", v.before.SectionName(i))
		}
		if i == v.before.stringSection() && b.Addralign == 1 { // another tool's alignment, which strings do not need
			b.Addralign = a.Addralign
		}
		if v.isNoteSection(i) {
			b.NameOff, b.Type, b.Addralign = a.NameOff, a.Type, a.Addralign
		}
		if a != b && i != anchor {
			return bug("changes the section header of %s", v.before.SectionName(i))
		}
		if is[i].Addr != was[i].Addr && was[i].Addralign > 1 && (is[i].Addr-was[i].Addr)%min(was[i].Addralign,
			elfimage.PageSize) != 0 && was[i].Type != elf.SHT_DYNAMIC && was[i].Type != elf.SHT_STRTAB {
			return bug("moves %s to an address that is aligned differently", v.before.SectionName(i))
		}
	}
	return nil
}

// segments checks that no new or grown PT_LOAD shares a page of memory with another.
func (v *verifier) segments() error {
	loads := v.after.CopyProgs(nil, len(v.after.Progs))
	for _, p := range v.after.Progs {
		if p.Type == elf.PT_LOAD && p.Memsz > 0 {
			loads = append(loads, p)
		}
	}
	slices.SortFunc(loads, func(a, b elfimage.Prog) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
	for i := 1; i < len(loads); i++ {
		a, b := loads[i-1], loads[i]
		const page = elfimage.PageSize
		began := slices.ContainsFunc(v.before.Progs, func(p elfimage.Prog) bool {
			return p.Type == elf.PT_LOAD && p.Vaddr == b.Vaddr && p.Off == b.Off
		})
		if alignUp(a.Vaddr+a.Memsz, page) > b.Vaddr&^(page-1) && !(slices.Contains(v.before.Progs, a) && began) {
			return bug("makes the segment at address %#x overlap that at %#x", a.Vaddr, b.Vaddr)
		}
	}
	return nil
}

// sameAddress compares addresses, or their differences, which wrap at the class's size.
func (v *verifier) sameAddress(a, b uint64) bool {
	return a == b || !v.before.Is64() && uint32(a) == uint32(b)
}

// isPointer reports whether a dynamic entry says where something is. moved compares what it points to.
func isPointer(t elf.DynTag) bool {
	return t == elf.DT_STRTAB || t == elf.DT_STRSZ || slices.Contains(dynamicPointers, t)
}

// dynamic checks the entries that the change is not about.
func (v *verifier) dynamic() error {
	is := v.after.Dynamic // those that come next
	skip := func() {
		for len(is) > 0 && v.about(is[0].Tag) {
			is = is[1:]
		}
	}
	for _, d := range v.before.Dynamic {
		if v.about(d.Tag) {
			continue
		}
		if skip(); len(is) == 0 || is[0].Tag != d.Tag {
			return bug("loses %v or what comes before it", d.Tag)
		}
		now := is[0]
		is = is[1:]
		switch {
		case elfimage.IsStringTag(d.Tag) && !bytes.Equal(v.before.says(d), v.after.says(now)):
			return bug("changes what %v says", d.Tag)
		case now.Val == d.Val, isPointer(d.Tag),
			v.before.isRelative(d.Tag) && v.address(v.before, d) == v.address(v.after, now):
			continue
		}
		return bug("changes %v", d.Tag)
	}
	if skip(); len(is) > 0 {
		return bug("adds %v", is[0].Tag)
	}
	return nil
}

// address is the target of an entry whose value is relative to itself.
func (v *verifier) address(im *image, d elfimage.Dyn) uint32 {
	return uint32(im.Prog(elf.PT_DYNAMIC).Vaddr + d.Off - im.DynOff + d.Val)
}

// sharedStrings checks that the changing strings include none that a symbol, a version or a section name refers to.
func (v *verifier) sharedStrings() error {
	onlyRunPath := v.c.Needed == nil && v.c.Soname == nil
	renamed, err := v.renamed()
	if err != nil {
		return err
	}
	if err := v.ownStrings(renamed); err != nil {
		return err
	}
	if v.after.StrSize != v.before.StrSize {
		if v.after.StrSize < v.before.StrSize {
			return bug("leaves a shorter string table")
		}
		added, err := v.after.Read(v.after.StrOff+v.before.StrSize, v.after.StrSize-v.before.StrSize)
		if err != nil {
			return err
		}
		if r := lastRoom(added, v.before.StrSize, v.after.StrSize); r.end() != v.after.StrSize {
			return bug("leaves a string table that does not end with its room")
		}
	}
	ranges := slices.DeleteFunc(v.strings, func(s span) bool {
		return onlyRunPath && v.before.inOurRoom(s.off) && v.before.inOurRoom(s.end()-1)
	})
	if len(ranges) == 0 {
		return nil
	}
	// From the beginning of each string, keeping one of those in the same string.
	slices.SortFunc(ranges, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	whole := ranges[:0]
	for _, s := range ranges {
		from := uint64(0)
		if len(whole) > 0 {
			from = min(whole[len(whole)-1].end(), s.off)
		}
		start, err := v.before.stringStart(from, s.off)
		if err != nil {
			return err
		}
		if last := len(whole) - 1; last >= 0 && start == from {
			whole[last].size = max(whole[last].end(), s.end()) - whole[last].off
		} else {
			whole = append(whole, span{start, s.end() - start})
		}
	}
	low, high := whole[0].off, whole[len(whole)-1].end()
	shared := false
	complete, err := v.before.EachStringRef(func(off, at uint64) {
		if _, another := renamed[at]; off >= low && off < high && !another {
			shared = shared || slices.ContainsFunc(whole, func(s span) bool { return off >= s.off && off < s.end() })
		}
	})
	switch {
	case err != nil:
		return err
	case shared:
		return bug("changes a string that something else refers to")
	case !complete && !v.zeros(whole):
		return bug("changes strings that symbols may refer to")
	}
	return nil
}

// renamed returns the string table offsets of the names in DT_VERNEED that change, by the file offsets of their
// words.
func (v *verifier) renamed() (map[uint64]uint64, error) {
	if v.c.Needed == nil || len(v.c.Needed.Renamed) == 0 {
		return nil, nil
	}
	all := map[uint64]uint64{}
	return all, v.before.EachVersionRef(func(r elfimage.VersionRef) error {
		if !r.Library {
			return nil
		}
		name, err := v.before.DynString(elfimage.Dyn{Tag: elf.DT_VERNEED, Val: r.Str, Off: r.Off})
		if to, ok := v.c.Needed.Renamed[name]; ok && to != name {
			all[r.Off] = r.Str
		}
		return err
	})
}

// ownStrings checks that what changes in the string table is in our room, or belongs to a string that the change
// replaces.
func (v *verifier) ownStrings(renamed map[uint64]uint64) error {
	if len(v.strings) == 0 {
		return nil
	}
	own := append(make([]span, 0, 8), v.before.findRoom())
	add := func(off uint64) error {
		s, err := v.before.DynText(elfimage.Dyn{Tag: elf.DT_STRTAB, Val: off, Off: v.before.DynOff})
		own = append(own, span{off, uint64(len(s))})
		return err
	}
	for _, d := range v.before.Dynamic {
		if elfimage.IsStringTag(d.Tag) && v.about(d.Tag) {
			if err := add(d.Val); err != nil {
				return err
			}
		}
	}
	for _, off := range renamed {
		if err := add(off); err != nil {
			return err
		}
	}
	for _, s := range v.strings {
		if s.off < v.before.StrSize &&
			!slices.ContainsFunc(own, func(o span) bool { return o.off <= s.off && s.end() <= o.end() }) {
			return bug("changes another string, at %#x of the string table", s.off)
		}
	}
	return nil
}

// zeros reports whether ranges of the string table were all zeros.
func (v *verifier) zeros(ranges []span) bool {
	for _, s := range ranges {
		if zero, err := v.before.zeros(v.before.StrOff+s.off, s.size); !zero || err != nil {
			return false
		}
	}
	return true
}
