// Package judge compares an ELF file before an edit with the same file after it, and
// names each difference that the edit is not about.
//
// It reads ELF by itself and knows nothing of how an edit is made: not where strings
// are put, not what is moved first, no marker. It knows what the loader, the kernel
// and the usual tools read, and takes every other byte for alive: what a segment maps
// must be at its address afterwards, with the same permissions. A table that the
// dynamic section, a program header or a section header names may be elsewhere
// afterwards if its content does; only then are the bytes that it leaves dead.
//
// Sources: the gABI; glibc's elf/dl-load.c, elf/get-dynamic-info.h and elf/dl-lookup.c;
// the LSB for symbol versions.
package judge

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Expect is what the edit was about. What is nil, false or empty is to be as it was.
type Expect struct {
	// RunPath is the run path afterwards; one without Tag is none.
	RunPath *RunPath
	// Interpreter is the text of PT_INTERP afterwards.
	Interpreter *string
	Soname      *string
	// Needed is the DT_NEEDED list afterwards, in order; Renamed maps old names to new ones, for the version needs.
	Needed  *[]string
	Renamed map[string]string
	// ExecStack is PF_X of PT_GNU_STACK afterwards.
	ExecStack    *bool
	NoDefaultLib bool
	OSABI        *byte
	// Cleared are symbols that have no version afterwards.
	Cleared []string
	// Debug says that a DT_DEBUG was asked for.
	Debug bool
	// Note is the description of .note.nixos.ldcache afterwards, "" for none. nil: the file has the one that it had,
	// unless that contradicts what changes.
	Note *string
	// Gone are texts that must not be in the file afterwards, unless they were before.
	Gone []string
	// Reusable are texts that earlier edits by the same editor wrote into the string table. Where another tool took away
	// what referred to them, their bytes may hold something else afterwards.
	Reusable []string
	// Holes are names of sections by which earlier edits of the same editor marked a hole of zeros. Such a section may be
	// larger or smaller afterwards, or stand elsewhere, as long as there are only zeros in it, before and after.
	Holes []string
}

// A RunPath is a tag, "RUNPATH" or "RPATH", and the list as it is in the file.
type RunPath struct{ Tag, List string }

// A Finding is one difference. Kind says in a word or two what differs, for tables.
// A remark is a difference that the edit may make but that somebody could miss.
type Finding struct {
	Kind   string
	Text   string
	Remark bool
}

func (f Finding) String() string {
	if f.Remark {
		return "remark, " + f.Kind + ": " + f.Text
	}
	return f.Kind + ": " + f.Text
}

// A comparison is one pair of files.
type comparison struct {
	a, b  *File // before, after
	want  Expect
	found []Finding

	left    []part          // extents of what is elsewhere afterwards: dead, if nothing refers to them
	changed []span          // addresses in left whose bytes are others now
	live    []bool          // the bytes of a's string table that something refers to, the strings that go away not counted
	retired map[uint64]bool // offsets in a's string table of the strings that the edit takes away
	exact   bool            // the number of dynamic symbols is known
	gone    map[int]bool    // a's sections that the edit removes
}

// A part is a range of addresses with a name.
type part struct {
	span
	name string
}

const most = 40 // findings of a kind; the rest is a number

func (c *comparison) bad(kind, format string, args ...any) {
	c.found = append(c.found, Finding{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

func (c *comparison) remark(kind, format string, args ...any) {
	c.found = append(c.found, Finding{Kind: kind, Text: fmt.Sprintf(format, args...), Remark: true})
}

// Compare returns what differs and should not. The files may be the same one.
func Compare(before, after *File, want Expect) []Finding {
	c := &comparison{a: before, b: after, want: want, retired: map[uint64]bool{}, gone: map[int]bool{}}
	if desc, ok := rewritten(before, after); want.Note == nil && ok {
		c.want.Note = &desc
	}
	for _, step := range []func(){
		c.header, c.dynamic, c.programHeaders, c.aligned, c.tables, c.notes, c.strings, c.sections, c.memory, c.pointers,
		c.symbols, c.lookups, c.versions, c.relocations, c.layout, c.file, c.scrubbed,
	} {
		c.guard(step)
	}
	return c.shorten()
}

// guard turns a panic over a file that contradicts itself into a finding.
func (c *comparison) guard(step func()) {
	defer func() {
		if r := recover(); r != nil {
			c.bad("unreadable", "the file contradicts itself: %v", r)
		}
	}()
	step()
}

func (c *comparison) shorten() (out []Finding) {
	n := map[string]int{}
	for _, f := range c.found {
		if n[f.Kind]++; n[f.Kind] <= most {
			out = append(out, f)
		}
	}
	for kind, k := range n {
		if k > most {
			out = append(out, Finding{Kind: kind, Text: fmt.Sprintf("and %d more", k-most)})
		}
	}
	return out
}

// header compares the ELF header. The counts and offsets of the tables follow from
// comparing these.
func (c *comparison) header() {
	x, y := c.a.head, c.b.head
	if c.a.wide != c.b.wide || c.a.order != c.b.order {
		c.bad("ELF header", "class or byte order")
		return
	}
	if c.want.OSABI != nil {
		if y.osabi != *c.want.OSABI {
			c.bad("ELF header", "OS ABI is %d instead of %d", y.osabi, *c.want.OSABI)
		}
		x.osabi = y.osabi
	}
	x.phnum, x.shnum, x.shstrndx, x.rawPhnum, x.rawShnum, x.rawStrndx, x.shoff = y.phnum, y.shnum, y.shstrndx, y.rawPhnum,
		y.rawShnum, y.rawStrndx, y.shoff
	if x != y {
		c.bad("ELF header", "%+v became %+v", c.a.head, c.b.head)
	}
	if len(c.a.sects) > 0 && c.a.head.shstrndx != c.b.head.shstrndx {
		c.bad("ELF header", "e_shstrndx was %d and is %d", c.a.head.shstrndx, c.b.head.shstrndx)
	}
	// The rest of the header that no field names.
	if !bytes.Equal(c.a.data[:7], c.b.data[:7]) || !bytes.Equal(c.a.data[8:16], c.b.data[8:16]) {
		c.bad("ELF header", "e_ident % x became % x", c.a.data[:16], c.b.data[:16])
	}
}

// tablePointers are the entries that hold the address of a table which may be elsewhere afterwards.
var tablePointers = []uint64{dtStrtab, dtSymtab, dtHash, dtGnuHash, dtVersym, dtVerneed, dtVerdef, dtRela, dtRel,
	dtJmpRel, dtRelr, dtMipsOptions, dtMipsXhash}

// dynamic compares the entries: all that were there are there, in their order, with the
// same values, but for those that the edit is about and the addresses of tables, which
// tables compares.
func (c *comparison) dynamic() {
	a, b := c.a, c.b
	if a.dynEnds && !b.dynEnds {
		c.bad("dynamic", "the dynamic section has no DT_NULL any more")
	}
	drop := map[uint64]bool{} // tags that are compared by what they mean
	if want := c.want.RunPath; want != nil {
		drop[dtRunpath], drop[dtRpath] = true, true
		for _, tag := range []uint64{dtRunpath, dtRpath} {
			for _, off := range a.all(tag) {
				c.retired[off] = true
			}
		}
		run, r := b.names(dtRunpath), b.names(dtRpath)
		wantRun, wantR := []string(nil), []string(nil)
		switch want.Tag {
		case "RUNPATH":
			wantRun = []string{want.List}
		case "RPATH":
			wantR = []string{want.List}
		}
		if !slices.Equal(run, wantRun) || !slices.Equal(r, wantR) {
			c.bad("run path", "DT_RUNPATH is %.300q and DT_RPATH %.300q, expected %.300q and %.300q", run, r, wantRun, wantR)
		}
	}
	if want := c.want.Soname; want != nil {
		drop[dtSoname] = true
		for _, off := range a.all(dtSoname) {
			c.retired[off] = true
		}
		if got := b.names(dtSoname); !slices.Equal(got, []string{*want}) {
			c.bad("soname", "%q instead of %q", got, *want)
		}
	}
	needed := a.names(dtNeeded)
	if c.want.Needed != nil {
		needed = *c.want.Needed
	}
	drop[dtNeeded] = true
	if got := b.names(dtNeeded); !slices.Equal(got, needed) {
		c.bad("needed", "%q instead of %q", got, needed)
	}
	if c.want.Needed != nil {
		kept := b.names(dtNeeded)
		for _, off := range a.all(dtNeeded) {
			// Of a library that is named twice, by two strings, one may do.
			if s, _ := a.str(off); !slices.Contains(kept, s) || !slices.Contains(b.all(dtNeeded), off) {
				c.retired[off] = true
			}
		}
	}
	for _, tag := range []uint64{dtStrsz} {
		drop[tag] = true
	}
	for _, tag := range tablePointers {
		drop[tag] = true
	}
	if c.want.NoDefaultLib {
		x, _ := a.one(dtFlags1)
		y, ok := b.one(dtFlags1)
		if !ok || y != x|flag1NoDefLib {
			c.bad("dynamic", "DT_FLAGS_1 was %#x and is %#x", x, y)
		}
		drop[dtFlags1] = true
	}
	if c.want.Debug {
		if len(b.all(dtDebug)) != 1 {
			c.bad("dynamic", "%d entries DT_DEBUG", len(b.all(dtDebug)))
		}
		drop[dtDebug] = true
	}
	list := func(f *File) (out []entry) {
		for i, e := range f.dyn {
			if drop[e.tag] {
				continue
			}
			if f.head.machine == machineMIPS && e.tag == dtMipsRldMapRel { // counts from the entry itself
				e.val += f.dynAt.lo + uint64(i)*2*f.word()
				if !f.wide {
					e.val &= 0xffffffff
				}
			}
			out = append(out, e)
		}
		return out
	}
	x, y := list(a), list(b)
	// Strings by meaning: their offsets stay unless the edit is about them.
	for _, tag := range stringTags(a.head.machine) {
		if drop[tag] {
			continue
		}
		if p, q := a.names(tag), b.names(tag); !slices.Equal(p, q) {
			c.bad("dynamic", "the strings of tag %#x were %q and are %q", tag, p, q)
		}
	}
	if slices.Equal(x, y) {
		return
	}
	var gone []entry
	rest := slices.Clone(y)
	for _, e := range x {
		if i := slices.Index(rest, e); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			continue
		}
		gone = append(gone, e)
	}
	for _, e := range gone {
		c.bad("dynamic", "entry %#x, value %#x, is gone", e.tag, e.val)
	}
	for _, e := range rest {
		c.bad("dynamic", "entry %#x, value %#x, is new", e.tag, e.val)
	}
	if len(gone) == 0 && len(rest) == 0 {
		c.remark("dynamic order", "the entries stand in another order")
	}
}

// phdrTable is the extent of the program headers in the file.
func (f *File) phdrTable() span { return of(f.head.phoff, f.head.phnum*uint64(f.head.phentsize)) }

// mapped returns the addresses at which the bytes of a range of the file are, by the first segment that holds them.
func (f *File) mapped(s span) (out []span) {
	for _, p := range f.loads() {
		lo, hi := max(s.lo, p.off), min(s.hi, p.off+min(p.filesz, p.memsz))
		if lo < hi {
			out = append(out, span{p.vaddr + lo - p.off, p.vaddr + hi - p.off})
		}
	}
	return out
}

// programHeaders compares them one by one. PT_LOADs keep their place and may grow at
// the end; one may be new. What a PT_NOTE, PT_INTERP and their kin describe may stand
// elsewhere, with the same content.
func (c *comparison) programHeaders() {
	a, b := c.a, c.b
	var x, y []segment // PT_LOAD
	for _, p := range a.segs {
		if p.kind == ptLoad {
			x = append(x, p)
		}
	}
	for _, p := range b.segs {
		if p.kind == ptLoad {
			y = append(y, p)
		}
	}
	added := 0
	for i, j := 0, 0; j < len(y) || i < len(x); {
		switch {
		case i < len(x) && j < len(y) && x[i].vaddr == y[j].vaddr && x[i].off == y[j].off && c.sameFlags(x[i], y[j]) &&
			x[i].align == y[j].align:
			if x[i].paddr != y[j].paddr {
				c.bad("PT_LOAD", "segment at %#x: physical address %#x became %#x", x[i].vaddr, x[i].paddr, y[j].paddr)
			}
			if y[j].filesz < x[i].filesz || y[j].memsz < x[i].memsz {
				c.bad("PT_LOAD", "segment at %#x has shrunk: %+v became %+v", x[i].vaddr, x[i], y[j])
			}
			if x[i].filesz < x[i].memsz && (y[j].filesz != x[i].filesz || y[j].memsz != x[i].memsz) ||
				x[i].filesz == x[i].memsz && y[j].filesz != y[j].memsz {
				c.bad("PT_LOAD", "segment at %#x: %+v became %+v", x[i].vaddr, x[i], y[j])
			}
			i, j = i+1, j+1
		case i < len(x) && j < len(y) && c.relocated(x[i], y[j]):
			c.remark("PT_LOAD", "the segment at %#x stands at offset %#x of the file, with its .bss", x[i].vaddr, y[j].off)
			i, j = i+1, j+1
		case j < len(y) && (i == len(x) || !slices.ContainsFunc(x, func(p segment) bool { return p.vaddr == y[j].vaddr })):
			if added++; added > 1 {
				c.remark("PT_LOAD", "more than one new segment: %+v", y[j])
			}
			j++
		default:
			if i < len(x) {
				c.bad("PT_LOAD", "segment %+v is gone or has changed", x[i])
				i++
			} else {
				j++
			}
			if j < len(y) && (i < len(x) && y[j].vaddr < x[i].vaddr || i == len(x)) {
				j++
			}
		}
	}
	for i := 1; i < len(y); i++ {
		if y[i].vaddr < y[i-1].vaddr && slices.IsSortedFunc(x, func(p, q segment) int { return cmpUint(p.vaddr, q.vaddr) }) {
			c.bad("PT_LOAD", "segments are not in ascending order: %#x after %#x", y[i].vaddr, y[i-1].vaddr)
		}
	}
	// The others, in their order, by kind.
	for _, kind := range kinds(a, b) {
		if kind == ptLoad || kind == ptNull {
			continue
		}
		p, q := a.ofKind(kind), b.ofKind(kind)
		if len(p) != len(q) {
			c.missing(kind, p, q)
			continue
		}
		for i := range p {
			c.programHeader(kind, p[i], q[i])
		}
	}
	// PT_PHDR and PT_INTERP go before any PT_LOAD (gABI, "Program Header").
	for _, kind := range []uint32{ptPhdr, ptInterp} {
		first := func(f *File, k uint32) int {
			return slices.IndexFunc(f.segs, func(p segment) bool { return p.kind == k })
		}
		if i := first(b, kind); i >= 0 && i > first(b, ptLoad) && first(a, kind) < first(a, ptLoad) {
			c.bad("program headers", "header of kind %d comes after a PT_LOAD", kind)
		}
	}
	// The kernel and the loader find the table at load address + e_phoff, or by PT_PHDR.
	if loc := a.mapped(a.phdrTable()); len(loc) == 1 && loc[0].hi-loc[0].lo == a.phdrTable().hi-a.phdrTable().lo {
		now := b.mapped(b.phdrTable())
		if len(now) == 0 || now[0].lo != loc[0].lo || now[0].hi-now[0].lo != b.phdrTable().hi-b.phdrTable().lo {
			c.bad("program headers", "the table was mapped at %v and is at %v", loc, now)
		}
	}
	for _, p := range b.ofKind(ptPhdr) {
		if t := b.phdrTable(); len(a.ofKind(ptPhdr)) > 0 && (p.off != t.lo || p.filesz != t.hi-t.lo || p.memsz != p.filesz) {
			if q := a.ofKind(ptPhdr)[0]; q.off == a.phdrTable().lo && q.filesz == a.phdrTable().hi-a.phdrTable().lo {
				c.bad("program headers", "PT_PHDR says %+v, the table is %v", p, t)
			}
		}
	}
}

// aligned makes sure that the loader puts the image at an address as round as before: the largest p_align says which,
// and data may need it.
func (c *comparison) aligned() {
	largest := func(f *File) (n uint64) {
		for _, p := range f.loads() {
			if p.memsz > 0 {
				n = max(n, p.align)
			}
		}
		return n
	}
	if x, y := largest(c.a), largest(c.b); y < x {
		c.bad("alignment", "the image is aligned to %#x, and was to %#x", y, x)
	}
}

// relocated reports whether the segment that is last in memory comes after all that
// the file had, at the addresses of before and with its .bss in the file: a place for
// what is new that takes no program header. memory compares the bytes.
func (c *comparison) relocated(p, q segment) bool {
	for _, o := range c.a.loads() {
		if o.vaddr > p.vaddr && o.memsz > 0 {
			return false
		}
	}
	// What one segment asks for beyond a page of the machine may be asked for by another: see aligned.
	page := uint64(64 << 10)
	if c.a.head.machine == machineAMD64 || c.a.head.machine == machine386 {
		page = 4 << 10
	}
	same := q.vaddr == p.vaddr && q.paddr == p.paddr && (q.align == p.align || q.align == page && p.align > page) &&
		c.sameFlags(p, q)
	return same && q.off != p.off && q.off >= uint64(len(c.a.data)) && q.filesz == q.memsz && q.memsz >= p.memsz
}

// sameFlags reports whether a segment has the permissions that it had, or may be written to because .dynamic is in it
// now: the loader writes to that.
func (c *comparison) sameFlags(p, q segment) bool {
	return q.flags == p.flags || c.holdsNewDynamic(q) && q.flags == p.flags|flagW && q.flags&flagX == 0
}

// holdsNewDynamic reports whether .dynamic is in a segment now and was not before.
func (c *comparison) holdsNewDynamic(q segment) bool {
	return of(q.vaddr, q.memsz).contains(c.b.dynAt) && c.b.dynAt.lo != c.a.dynAt.lo
}

// withSegment returns a program header before as it is once its segment is elsewhere in the file.
func (c *comparison) withSegment(p, q segment) segment {
	x, y := c.a.loads(), c.b.loads()
	for _, o := range x {
		if !of(o.off, o.filesz).contains(of(p.off, p.filesz)) || p.off-o.off != p.vaddr-o.vaddr {
			continue
		}
		for _, n := range y {
			if n.vaddr == o.vaddr && c.relocated(o, n) && q.off-p.off == n.off-o.off {
				p.off = q.off
			}
		}
	}
	return p
}

func cmpUint(x, y uint64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func kinds(files ...*File) (out []uint32) {
	for _, f := range files {
		for _, p := range f.segs {
			if !slices.Contains(out, p.kind) {
				out = append(out, p.kind)
			}
		}
	}
	return out
}

func (f *File) ofKind(kind uint32) (out []segment) {
	for _, p := range f.segs {
		if p.kind == kind {
			out = append(out, p)
		}
	}
	return out
}

// missing explains program headers that are gone or new.
func (c *comparison) missing(kind uint32, p, q []segment) {
	switch {
	case kind == ptStack && c.want.ExecStack != nil && len(p) == 0 && len(q) == 1:
		c.stack(q[0])
		return
	case len(q) < len(p) && kind == ptPhdr && (c.a.head.kind == typeExec || len(c.a.ofKind(ptInterp)) == 0):
		// An ET_EXEC file stands where it was linked, and a library's is never read (glibc, elf/rtld.c).
		c.remark("program headers", "PT_PHDR is gone")
		return
	case len(q) < len(p) && kind == ptProperty && (c.a.head.machine == machineAMD64 || c.a.head.machine == machine386):
		// glibc takes the properties from PT_NOTE where there is no such header (sysdeps/x86/dl-prop.h).
		lost := p[0]
		for _, n := range c.a.ofKind(ptNote) {
			if n.off <= lost.off && lost.off+lost.filesz <= n.off+n.filesz {
				c.remark("program headers", "PT_GNU_PROPERTY is gone; PT_NOTE says the same")
				return
			}
		}
	case kind == ptNote && c.cacheGone():
		return // notes compares the records
	}
	c.bad("program headers", "%d of kind %#x became %d", len(p), kind, len(q))
}

func (c *comparison) programHeader(kind uint32, p, q segment) {
	if kind == ptPhdr {
		p.filesz, p.memsz = q.filesz, q.memsz // compared with the table itself
	}
	p = c.withSegment(p, q)
	if p == q {
		if kind == ptInterp {
			c.interpreter(q)
		}
		return
	}
	name := map[uint32]string{ptDynamic: "PT_DYNAMIC", ptInterp: "PT_INTERP", ptNote: "PT_NOTE",
		ptProperty: "PT_GNU_PROPERTY"}[kind]
	switch {
	case kind == ptStack && c.want.ExecStack != nil:
		c.stack(q)
		return
	case kind == ptDynamic:
		if p.vaddr == q.vaddr && q.filesz < p.filesz || p.flags != q.flags || p.align != q.align {
			c.bad("program headers", "%+v became %+v", p, q)
		}
	case kind == ptInterp && c.want.Interpreter != nil:
	case kind == ptNote && c.cacheGone():
	case kind == ptInterp, kind == ptNote, kind == ptProperty, kind >= 0x70000000 && kind <= 0x7fffffff:
		if name == "" {
			name = fmt.Sprintf("segment of kind %#x", kind)
		}
		old, ok := c.a.rawAt(p)
		now, ok2 := c.b.rawAt(q)
		if !ok || !ok2 || !bytes.Equal(old, now) || p.flags != q.flags || p.filesz != q.filesz || p.memsz != q.memsz ||
			p.align != q.align {
			c.bad("program headers", "%s: %+v became %+v, or its content changed", name, p, q)
		}
	default:
		c.bad("program headers", "%+v became %+v", p, q)
		return
	}
	// The physical address follows the virtual one, or means nothing and stays.
	if q.paddr-p.paddr != q.vaddr-p.vaddr && q.paddr != p.paddr ||
		p.vaddr == q.vaddr && (p.paddr != q.paddr || p.off != q.off) || q.memsz != q.filesz && p.memsz == p.filesz {
		c.bad("program headers", "%+v became %+v", p, q)
	}
	if p.align > 1 && p.vaddr%p.align == 0 && q.vaddr%p.align != 0 {
		c.bad("alignment", "%s, of alignment %d, is at %#x", name, p.align, q.vaddr)
	}
	if p.vaddr != q.vaddr || p.filesz != q.filesz {
		c.left = append(c.left, part{of(p.vaddr, p.memsz), name})
	}
	if at := c.b.mapped(of(q.off, q.filesz)); q.filesz > 0 && (len(at) == 0 ||
		!slices.Contains(at, of(q.vaddr, q.filesz))) {
		c.bad("program headers", "%s at offset %#x is not at the address %#x", name, q.off, q.vaddr)
	}
	if kind == ptInterp {
		c.interpreter(q)
	}
}

// rawAt returns the bytes of a program header in the file.
func (f *File) rawAt(p segment) ([]byte, bool) {
	if p.off > uint64(len(f.data)) || p.filesz > uint64(len(f.data))-p.off {
		return nil, false
	}
	return f.data[p.off : p.off+p.filesz], true
}

func (c *comparison) interpreter(q segment) {
	if c.want.Interpreter == nil {
		return
	}
	// The kernel takes at most PATH_MAX bytes, wants the last to be zero and stops at the first that is (fs/binfmt_elf.c).
	now, ok := c.b.rawAt(q)
	if text := c.b.Interpreter(); !ok || text != *c.want.Interpreter || now[len(now)-1] != 0 || len(now) > 4096 {
		c.bad("interpreter", "%q instead of %q", now, *c.want.Interpreter)
	}
	for _, p := range c.a.ofKind(ptInterp) {
		c.left = append(c.left, part{of(p.vaddr, p.memsz), "PT_INTERP"})
	}
}

func (c *comparison) stack(q segment) {
	if got := q.flags&flagX != 0; got != *c.want.ExecStack || q.flags&(flagR|flagW) != flagR|flagW {
		c.bad("executable stack", "PT_GNU_STACK's flags are %#x", q.flags)
	}
}

// tables compares what .dynamic and the section headers point to and is elsewhere.
func (c *comparison) tables() {
	a, b := c.a, c.b
	if a.dynAt.lo != b.dynAt.lo {
		c.left = append(c.left, part{a.dynAt, ".dynamic"})
	}
	count, exact := a.symbolCount()
	c.exact = exact
	sizes := map[uint64]func() (uint64, bool){
		dtStrtab: func() (uint64, bool) { _, n := a.strings(); return n, true },
		dtSymtab: func() (uint64, bool) { return count * a.symSize(), true },
		dtVersym: func() (uint64, bool) { return count * 2, true },
		dtHash: func() (uint64, bool) {
			at, _ := a.one(dtHash)
			h, ok := a.memory(at, 2*a.hashWord())
			if !ok {
				return 0, false
			}
			cu := cursor{a, h}
			return (2 + cu.hash() + cu.hash()) * a.hashWord(), true
		},
		dtGnuHash: func() (uint64, bool) { g, ok := a.gnuHash(); return g.end - g.at, ok },
		dtVerneed: func() (uint64, bool) { _, s, ok := a.needed(); return s.hi - s.lo, ok },
		dtVerdef:  func() (uint64, bool) { _, s, ok := a.defined(); return s.hi - s.lo, ok },
		dtRela:    func() (uint64, bool) { return a.one(dtRelaSz) },
		dtRel:     func() (uint64, bool) { return a.one(dtRelSz) },
		dtJmpRel:  func() (uint64, bool) { return a.one(dtPltRelSz) },
		dtRelr:    func() (uint64, bool) { return a.one(dtRelrSz) },
		dtMipsOptions: func() (uint64, bool) {
			at, _ := a.one(dtMipsOptions)
			s, ok := a.sectionAt(0x7000000d, at)
			return s.size, ok
		},
	}
	for _, tag := range tablePointers {
		x, y := a.all(tag), b.all(tag)
		if slices.Equal(x, y) {
			continue
		}
		if len(x) != 1 || len(y) != 1 {
			c.bad("dynamic", "entries of tag %#x: %#x became %#x", tag, x, y)
			continue
		}
		size, ok := uint64(0), false
		if f := sizes[tag]; f != nil {
			size, ok = f()
		}
		name := fmt.Sprintf("the table of tag %#x", tag)
		if !ok {
			c.bad("moved table", "%s moved from %#x to %#x, although nothing tells its size", name, x[0], y[0])
			continue
		}
		// Words are read as words; some machines fault at one that is not at a multiple of its size.
		word := a.word()
		switch tag {
		case dtStrtab, dtVersym:
			word = 2
		case dtHash:
			word = a.hashWord()
		case dtVerneed, dtVerdef:
			word = 4
		}
		if tag != dtStrtab && x[0]%word == 0 && y[0]%word != 0 {
			c.bad("alignment", "%s is at %#x", name, y[0])
		}
		old, ok := a.memory(x[0], size)
		now, ok2 := b.memory(y[0], size)
		if !ok || !ok2 {
			c.bad("moved table", "%s, %d bytes, moved from %#x to %#x, where no segment maps it all", name, size, x[0], y[0])
			continue
		}
		switch tag {
		case dtStrtab, dtSymtab, dtVersym, dtVerneed: // compared by meaning
		default:
			if !bytes.Equal(old, now) {
				c.bad("moved table", "%s moved from %#x to %#x and its content changed", name, x[0], y[0])
			}
		}
		c.left = append(c.left, part{of(x[0], size), name})
	}
	// No edit takes bytes off the end of the string table, for nobody knows what refers to them.
	if x, y := a.all(dtStrsz), b.all(dtStrsz); len(x) == 1 && (len(y) != 1 || y[0] < x[0]) {
		c.bad("dynamic", "DT_STRSZ was %#x and is %#x", x, y)
	}
}

// cacheOwner and cacheKind are those of patchelf's resolution cache, .note.nixos.ldcache (its manual page,
// --build-resolution-cache), which contradicts a file whose run path, needed libraries or interpreter changed.
const (
	cacheOwner = "NixOS\x00"
	cacheKind  = 0x63a86cb6
	cacheName  = ".note.nixos.ldcache"
	cacheHole  = "ldcache" // zeros where a cache was, or may grow
)

// cacheGone reports whether the edit has to remove the resolution cache.
func (c *comparison) cacheGone() bool {
	if c.want.Note != nil {
		return !slices.ContainsFunc(c.a.notes(), func(n note) bool { return isCache(n) && n.desc == *c.want.Note })
	}
	if c.want.RunPath == nil && c.want.Needed == nil && c.want.Interpreter == nil && c.want.Soname == nil {
		return false
	}
	if c.want.RunPath == nil && c.want.Needed == nil && c.want.Interpreter == nil {
		return !slices.ContainsFunc(c.b.notes(), isCache) && slices.ContainsFunc(c.a.notes(), isCache)
	}
	return slices.ContainsFunc(c.a.notes(), isCache)
}

// rewritten returns the description of a cache that has become another one, which fits the file that it is in: it
// says of needed libraries alone where they are, and names no directory that is not in the run path.
func rewritten(a, b *File) (desc string, ok bool) {
	x, y := slices.IndexFunc(a.notes(), isCache), slices.IndexFunc(b.notes(), isCache)
	if x < 0 || y < 0 || a.notes()[x].desc == b.notes()[y].desc || !strings.HasSuffix(b.notes()[y].desc, "\x00\x00") {
		return "", false
	}
	desc = b.notes()[y].desc
	list := strings.Split(strings.Join(append(b.names(dtRunpath), b.names(dtRpath)...), ":"), ":")
	texts := strings.Split(strings.TrimSuffix(desc, "\x00\x00"), "\x00")
	for i := 0; i+1 < len(texts); i += 2 {
		if !slices.Contains(b.names(dtNeeded), texts[i]) {
			return "", false
		}
		for place := range strings.SplitSeq(texts[i+1], ":") {
			dir := strings.TrimSuffix(place, "/"+texts[i])
			if dir == "" || !slices.Contains(list, dir[1:]) || (dir[0] == '?') != (dir == place) {
				return "", false
			}
		}
	}
	return desc, len(texts)%2 == 0
}

func isCache(n note) bool { return n.owner == cacheOwner && n.kind == cacheKind }

// isBlank reports whether a note is what is left of a cache among other notes, for the loader to pass over.
func isBlank(n note) bool {
	return n.owner == cacheOwner && n.kind == 0 && strings.Trim(n.desc, "\x00") == ""
}

// newNote judges the cache that is asked for, and returns the notes without it: the first of its kind is the one that
// counts, and one is enough. It has a section of its own name where there are sections, at the place that PT_NOTE says.
func (c *comparison) newNote(y []note) []note {
	i := slices.IndexFunc(y, isCache)
	if i < 0 {
		c.bad("resolution note", "there is none")
		return y
	}
	n := y[i]
	if n.desc != *c.want.Note {
		c.bad("resolution note", "%.200q instead of %.200q", n.desc, *c.want.Note)
	}
	at := n.at.lo
	for _, p := range c.b.ofKind(ptNote) {
		if p.vaddr <= at && at < p.vaddr+p.filesz && !slices.Contains(c.b.mapped(of(p.off, p.filesz)),
			of(p.vaddr, p.filesz)) {
			c.bad("resolution note", "PT_NOTE says address %#x, where no segment has it", p.vaddr)
		}
	}
	s := slices.IndexFunc(c.b.sects, func(s section) bool { return s.name == cacheName && s.kind == shtNote })
	if len(c.b.sects) > 0 && (s < 0 || c.b.sects[s].addr != at || c.b.sects[s].flags != shfAlloc ||
		n.at.hi > at+c.b.sects[s].size || n.at.hi+4 <= at+c.b.sects[s].size) {
		c.bad("resolution note", "no section %s is at %v", cacheName, n.at)
	}
	return slices.Delete(y, i, i+1)
}

// notes compares the records, wherever they stand.
func (c *comparison) notes() {
	x, y := c.a.notes(), c.b.notes()
	if c.cacheGone() {
		for _, n := range x {
			if isCache(n) {
				c.left = append(c.left, part{n.at, cacheName})
			}
		}
		x = slices.DeleteFunc(x, isCache)
		comes := c.want.Note != nil && *c.want.Note != ""
		if comes {
			y = c.newNote(y)
		}
		if slices.ContainsFunc(y, isCache) {
			c.bad("stale cache", "%s contradicts the file", cacheName)
			y = slices.DeleteFunc(y, isCache)
		}
		if s := slices.IndexFunc(c.b.sects, func(s section) bool {
			return s.name == cacheName &&
				s.kind == shtNote
		}); s >= 0 && !comes {
			c.bad("stale cache", "the section %s is still there", cacheName)
		}
		x, y = slices.DeleteFunc(x, isBlank), slices.DeleteFunc(y, isBlank)
	}
	if len(x) != len(y) {
		c.bad("notes", "%d notes became %d", len(x), len(y))
		return
	}
	for i := range x {
		if x[i].owner != y[i].owner || x[i].kind != y[i].kind || x[i].desc != y[i].desc {
			c.bad("notes", "note %d, of %q, changed", i, x[i].owner)
			continue
		}
		// Other owners' notes can hold distances from themselves to something else.
		if x[i].at.lo != y[i].at.lo && x[i].owner != "GNU\x00" && x[i].owner != "FDO\x00" {
			c.remark("moved note", "a note of %q moved from %#x to %#x", strings.TrimRight(x[i].owner, "\x00"),
				x[i].at.lo, y[i].at.lo)
		}
	}
}

// strings compares the dynamic string table, at its old place or a new one. Alive is
// what something refers to, and every byte but zero that nothing does.
func (c *comparison) strings() {
	a, b := c.a, c.b
	at, size := a.strings()
	old, ok := a.memory(at, size)
	if !ok {
		return
	}
	live := make([]bool, size)
	mark := func(off uint64) {
		for ; off < size && !live[off]; off++ {
			live[off] = true
			if old[off] == 0 {
				break
			}
		}
	}
	for _, tag := range stringTags(a.head.machine) {
		for _, off := range a.all(tag) {
			if !c.retired[off] || tag != dtRunpath && tag != dtRpath && tag != dtNeeded && tag != dtSoname {
				mark(off)
			}
		}
	}
	symbols, _, _ := a.dynSymbols()
	for _, s := range symbols {
		mark(uint64(s.nameAt))
	}
	needs, _, _ := a.needed()
	for _, v := range needs {
		if c.want.Renamed[v.file] == "" {
			mark(v.fileAt)
		}
		mark(v.nameAt)
	}
	defs, _, _ := a.defined()
	for _, v := range defs {
		for _, off := range v.parentNames {
			mark(off)
		}
	}
	for i, s := range a.sects { // section and symbol names can share the table
		if s.kind == shtStrtab && s.addr == at && s.flags&shfAlloc != 0 {
			if uint64(i) == a.head.shstrndx {
				for _, t := range a.sects {
					mark(uint64(t.nameAt))
				}
			}
			for _, t := range a.sects {
				if t.kind == shtSymtab && t.link == uint32(i) {
					if content, ok := a.content(t); ok {
						for ; uint64(len(content)) >= a.symSize(); content = content[a.symSize():] {
							mark(uint64(a.symbol(content).nameAt))
						}
					}
				}
			}
		}
	}
	c.live = live
	// The bytes of what the edit takes away.
	dead := make([]bool, size)
	for off := range c.retired {
		for i := off; i < size; i++ {
			dead[i] = true
			if old[i] == 0 {
				break
			}
		}
	}
	for _, text := range c.want.Reusable {
		for off := 0; text != ""; off += len(text) {
			i := bytes.Index(old[off:], []byte(text))
			if i < 0 {
				break
			}
			off += i
			for j := off; j < off+len(text); j++ {
				dead[j] = true
			}
		}
	}
	nowAt, _ := b.strings()
	now, ok := b.memory(nowAt, size)
	if !ok {
		return // tables says so
	}
	from := -1
	report := func(to int) {
		if from >= 0 {
			c.bad("strings", "string table, bytes %#x–%#x: %.60q became %.60q", from, to, old[from:to], now[from:to])
			from = -1
		}
	}
	for i := range old {
		// A zero that nothing refers to can be the place of the new string, and so can what patchelf fills with.
		if old[i] != now[i] && (live[i] || !dead[i] && old[i] != 0 && old[i] != 'X') {
			if from < 0 {
				from = i
			}
			continue
		}
		report(i)
	}
	report(len(old))
	// What the edit wrote stands where nothing alive did.
	for _, tag := range []uint64{dtRunpath, dtRpath, dtNeeded, dtSoname} {
		for _, off := range b.all(tag) {
			s, ok := b.str(off)
			if !ok {
				c.bad("strings", "the string of tag %#x, at %#x, does not end in the table", tag, off)
				continue
			}
			for i := off; i < min(off+uint64(len(s))+1, size); i++ {
				if live[i] && old[i] != now[i] {
					c.bad("strings", "the string of tag %#x is written over one that is alive, at %#x", tag, i)
					break
				}
			}
		}
	}
}
