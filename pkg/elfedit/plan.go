package elfedit

import (
	"debug/elf"
	"fmt"

	"cuda-runpath/pkg/elfimage"
)

// planner is an edit in the making.
type planner struct {
	im      *image
	change  RunPath
	retired []int  // indices in im.Dynamic of the entries that hold a run path now
	table   []byte // the dynamic string table, once read
	room    *room  // the last one in it, once looked for; of size 0 where there is none
}

// A placement is a place for the new string, and what else has to change for it.
type placement struct {
	strOff uint64 // of the new run path in the string table

	// prepare writes bytes that nothing refers to yet.
	prepare []write
	// heads are writes of the ELF and program headers. The first early ones go
	// before .dynamic is switched, the others overwrite what it referred to.
	heads []write
	early int
	// dynamic entries that change with the place, by tag.
	tags map[elf.DynTag]uint64
	// settle writes what only tools read, and zeroes what is dead.
	settle []write

	size     uint64 // of the file afterwards
	moved    bool   // the string table stands elsewhere afterwards
	newTable uint64 // file offset of the string table afterwards

	dynamic     *block // .dynamic, where it had to move
	dynamicData []byte // its bytes in one of the writes in prepare

	// table is the prepared copy of the string table where it moves: a slice of
	// one of the writes in prepare.
	table []byte
}

func (p *planner) plan() (*Edit, error) {
	e := &Edit{im: p.im, size: int64(p.im.size)}
	if p.change.Tag == elf.DT_NULL {
		script := newDynScript(p.im)
		script.dropRunPaths(-1)
		e.writes = script.writes()
		scrubs, err := p.scrubs(p.im.StrOff)
		if err != nil {
			return nil, err
		}
		e.writes = append(e.writes, scrubs...)
		return e, nil
	}
	slot, err := p.slot()
	if err != nil {
		return nil, err
	}
	pl, err := p.place(slot < 0)
	if err != nil {
		return nil, err
	}
	return p.assemble(e, pl, slot)
}

// place finds room for the new run path, cheapest first.
func (p *planner) place(moveDynamic bool) (*placement, error) {
	if !moveDynamic {
		for _, try := range []func() (*placement, error){p.inRoom, p.inPadding, p.inLastSegment} {
			if pl, err := try(); pl != nil || err != nil {
				return pl, err
			}
		}
	}
	return p.inNewSegment(moveDynamic)
}

// assemble puts the writes in order: what nothing refers to yet; the headers that
// map it; .dynamic, the run path last; the headers that need the old bytes no
// longer; what only tools read; and zeros over what is dead.
func (p *planner) assemble(e *Edit, pl *placement, slot int) (*Edit, error) {
	e.size = int64(pl.size)
	e.writes = pl.prepare
	e.prepared = len(e.writes)

	script := newDynScript(p.im)
	script.retarget(pl.tags)
	script.setRunPath(slot, elfimage.Dyn{Tag: p.change.Tag, Val: pl.strOff})
	var dynamic []write
	if pl.dynamic == nil {
		dynamic = script.writes()
	} else {
		script.encodeInto(pl.dynamicData, pl.dynamic.newAddr-pl.dynamic.addr)
	}
	scrubs, err := p.scrubs(pl.newTable)
	if err != nil {
		return nil, err
	}
	// One indivisible write of .dynamic (or a new one that the headers switch to)
	// leaves no state in which the new table is read with the old offset, so the
	// copy need not hold the old string at all.
	if pl.moved && len(dynamic) <= 1 {
		for _, s := range scrubs {
			clear(pl.table[s.off-pl.newTable:][:len(s.data)])
		}
		scrubs = nil
	}
	e.writes = append(e.writes, pl.heads[:pl.early]...)
	e.writes = append(e.writes, dynamic...)
	e.writes = append(e.writes, pl.heads[pl.early:]...)
	e.writes = append(e.writes, pl.settle...)
	e.writes = append(e.writes, scrubs...)
	return e, nil
}

// slot returns the index of the dynamic entry that the run path takes: one that
// holds a run path now, the first spare one, or one whose loss costs nothing but
// a hint. -1: there is none, .dynamic itself has to move.
func (p *planner) slot() (int, error) {
	if len(p.retired) > 0 {
		for _, i := range p.retired {
			if p.im.Dynamic[i].Tag == p.change.Tag {
				return i, nil
			}
		}
		return p.retired[0], nil
	}
	if n := len(p.im.Dynamic); n+2 <= p.im.DynCap {
		return n, nil
	}
	// DT_RELACOUNT and DT_RELCOUNT only tell the loader how many relocations it
	// may do in a tight loop (glibc elf/do-rel.h); DT_FLAGS is said again by
	// DT_FLAGS_1 where it is DF_BIND_NOW alone. Never DT_DEBUG: gdb reads it.
	flags1, _ := p.im.Dyn(elf.DT_FLAGS_1)
	for i, d := range p.im.Dynamic {
		spare := d.Tag == elf.DT_RELACOUNT || d.Tag == elf.DT_RELCOUNT ||
			d.Tag == elf.DT_FLAGS && elf.DynFlag(d.Val) == elf.DF_BIND_NOW && elf.DynFlag1(flags1.Val)&elf.DF_1_NOW != 0
		if spare && samePage(d.Off, p.im.DynSize()) {
			return i, nil
		}
	}
	return -1, nil
}

// samePage reports whether n bytes at off lie in one page, and so are written whole or not at all.
func samePage(off, n uint64) bool { return off/elfimage.PageSize == (off+n-1)/elfimage.PageSize }

func alignUp(v, a uint64) uint64 {
	if a <= 1 {
		return v
	}
	return (v + a - 1) / a * a
}

// cannot is the error of a file that has no place for a new run path.
func cannot(format string, args ...any) error {
	return fmt.Errorf("no room for a new run path: "+format, args...)
}
