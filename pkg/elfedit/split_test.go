package elfedit

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// What changes in .dynamic and crosses a page could be written in part: a tag with a value that is not its own, a run path
// in a table that is not the one it is of.
func TestEntryAcrossPagesIsNeverHalfWritten(t *testing.T) {
	for name, l := range map[string]shape{
		"no run path": plain(),
		"DT_RUNPATH":  plain().with(func(l *shape) { l.runpath, l.pathFirst = "/old/one", true }),
		"both tags":   plain().with(func(l *shape) { l.runpath, l.rpath, l.pathFirst = "/old/one", "/old/rpath", true }),
		"no headers":  plain().with(func(l *shape) { l.runpath, l.pathFirst, l.noSections = "/old/one", true, true }),
		"junk after":  plain().with(func(l *shape) { l.junk = true }),
	} {
		first := parse(t, l.build(t))
		for split := range len(first.Dynamic) + 2 { // the entry that crosses
			t.Run(fmt.Sprintf("%s/entry %d", name, split), func(t *testing.T) {
				l := l
				l.skew = (3*elfimage.PageSize - 8 - uint64(split)*first.DynSize() - first.DynOff%elfimage.PageSize) % elfimage.PageSize
				b := l.build(t)
				im := parse(t, b)
				if at := im.DynOff + uint64(split)*im.DynSize(); samePage(at, im.DynSize()) {
					t.Fatalf("entry %d at %#x crosses no page", split, at)
				}
				checkPrefixes(t, b, "/new/one")
				checkPrefixes(t, b, "")
				e, err := im.plan(setPath(elf.DT_RUNPATH, "/new/one"))
				if err != nil {
					t.Fatal(err)
				}
				end := im.DynOff + uint64(im.DynCap)*im.DynSize()
				for _, w := range e.writes { // zeros over a .dynamic that has moved can be torn
					if w.off < end && im.DynOff < w.off+w.len() && !samePage(w.off, w.len()) && len(bytes.Trim(w.data, "\x00")) > 0 {
						t.Errorf("%d bytes at %#x, in .dynamic, are written at once and cross a page", w.len(), w.off)
					}
				}
				for _, st := range statesOf(t, e) {
					if err := sameEntries(im, parse(t, st)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// states returns what statesOf does for a change of a file, nothing where there is nothing to write.
func states(t *testing.T, old []byte, c Change) [][]byte {
	t.Helper()
	e, err := parse(t, old).plan(c)
	if err != nil {
		t.Fatal(err)
	}
	if e == nil {
		return nil
	}
	return statesOf(t, e)
}

// statesOf returns the file after none, one and so on, and all of the writes of an edit.
func statesOf(t *testing.T, e *Edit) (out [][]byte) {
	t.Helper()
	if e.first != nil {
		out = statesOf(t, e.first)
		out = out[:len(out)-1]
	}
	for n := range len(e.writes) + 1 {
		size := e.im.size
		for _, w := range e.writes[:n] {
			if size = max(size, w.off+w.len()); w.cut {
				size = w.off
			}
		}
		b := make([]byte, size)
		if _, err := (overlay{e, n}).ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// verify compares what the edit leaves with what there is.
func (e *Edit) verify(c Change) error { return e.verified(e.im, c, claims{}) }

// sameEntries reports an entry that the loader acts on and that is not one of before: one of a run path counts for any
// other one, and the string table may be elsewhere.
func sameEntries(before, now *image) error {
	for _, d := range now.Dynamic {
		switch d.Tag {
		case elf.DT_RUNPATH, elf.DT_RPATH:
			if s, err := now.DynString(d); err != nil || s != "/old/one" && s != "/old/rpath" && s != "/new/one" {
				return fmt.Errorf("a run path %.40q (%v) that nobody asked for", s, err)
			}
			continue
		case elf.DT_STRTAB, elf.DT_STRSZ, elf.DT_SYMTAB, elf.DT_HASH:
			if was, ok := before.Dyn(d.Tag); !ok || before.StrAddr == d.Val && d.Tag != elf.DT_STRTAB || was.Val == 0 {
				return fmt.Errorf("%v is %#x", d.Tag, d.Val)
			}
			continue
		}
		if was, ok := before.Dyn(d.Tag); ok && d.Tag != elf.DT_NEEDED && was.Val != d.Val {
			return fmt.Errorf("%v was %#x and is %#x", d.Tag, was.Val, d.Val)
		}
	}
	return nil
}

// What comes after DT_NULL is nobody's, and may be anything: an entry that is added there is followed by a DT_NULL.
func TestNewEntryIsTerminated(t *testing.T) {
	for name, l := range map[string]shape{
		"one page":   plain().with(func(l *shape) { l.junk = true }),
		"two pages":  plain().with(func(l *shape) { l.junk = true; l.skew = 4096 - 64 }),
		"big-endian": plain().with(func(l *shape) { l.junk, l.class, l.order, l.machine = true, elf.ELFCLASS32, bigOrder, elf.EM_PPC }),
	} {
		t.Run(name, func(t *testing.T) {
			b := l.build(t)
			was := parse(t, b)
			for i, st := range states(t, b, setPath(elf.DT_RUNPATH, "/new/one")) {
				im := parse(t, st)
				if n := len(im.Dynamic); n != len(was.Dynamic) && n != len(was.Dynamic)+1 {
					t.Errorf("after %d writes .dynamic has %d entries, and had %d", i, n, len(was.Dynamic))
				}
			}
			if after := edit(t, b, setPath(elf.DT_RUNPATH, "/new/one")); len(parse(t, after).Dynamic) != len(was.Dynamic)+1 || bytes.Equal(after, b) {
				t.Errorf("%d entries became %d", len(was.Dynamic), len(parse(t, after).Dynamic))
			}
		})
	}
}

// A table that makes room for a program header is found where it is afterwards.
func TestVersionsThatMoveAreFound(t *testing.T) {
	l := plain().with(func(l *shape) { l.versions, l.program = true, false })
	b := l.build(t)
	read := func(b []byte) []byte {
		im := parse(t, b)
		d, ok := im.Dyn(elf.DT_VERSYM)
		if !ok {
			t.Fatal("no DT_VERSYM")
		}
		versions, ok := im.Memory(d.Val, 2*uint64(len(l.symbols)+1))
		if !ok {
			t.Fatalf("DT_VERSYM %#x is not mapped", d.Val)
		}
		return bytes.Clone(versions)
	}
	after := edit(t, b, setPath(elf.DT_RUNPATH, lists[len(lists)-1]))
	was, _ := parse(t, b).Dyn(elf.DT_VERSYM)
	now, _ := parse(t, after).Dyn(elf.DT_VERSYM)
	if was.Val == now.Val {
		t.Fatal("the table does not move: the test tests nothing")
	}
	if !bytes.Equal(read(b), read(after)) {
		t.Errorf("versions % x became % x", read(b), read(after))
	}
}

// patchelf leaves section headers anywhere, and a byte or two behind them, which are not ours to move: where the headers
// cannot change at once, the new strings go elsewhere.
func TestSectionHeadersAcrossPagesBeforeOtherData(t *testing.T) {
	for _, l := range []shape{plain(), plain().with(func(l *shape) { l.code = true }), plain().with(func(l *shape) { l.spare, l.skew = 8, 4096 }),
		plain().with(func(l *shape) { l.tableFirst = true }), plain().with(func(l *shape) { l.align, l.spare = 65536, 8 })} {
		b := l.build(t)
		im := parse(t, b)
		old := b[im.Shoff : im.Shoff+uint64(len(im.Sections))*im.ShdrSize()]
		for k := 1; k < len(im.Sections); k++ {
			at := int(alignUp(uint64(len(b)), elfimage.PageSize)) + elfimage.PageSize - k*int(im.ShdrSize())
			moved := append(slices.Clone(b), make([]byte, at-len(b))...)
			moved = append(append(moved, old...), 'x')
			binary.LittleEndian.PutUint64(moved[0x28:], uint64(at))
			edit(t, moved, setPath(elf.DT_RUNPATH, "/run/opengl-driver/lib:/a/longer/list/than/the/one/before"))
		}
	}
}
