package elfedit

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

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

// statesOf returns the file before an edit and after it.
func statesOf(t *testing.T, e *Edit) [][]byte {
	t.Helper()
	before, after := make([]byte, e.im.size), make([]byte, e.size)
	if err := elfimage.ReadFull(e.im, before, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := (overlay{e}).ReadAt(after, 0); err != nil {
		t.Fatal(err)
	}
	return [][]byte{before, after}
}

func planned(t *testing.T, b []byte, c Change) *Edit {
	t.Helper()
	e, err := parse(t, b).plan(c)
	if err != nil || e == nil {
		t.Fatalf("%v, %v", e, err)
	}
	return e
}

// verify compares what the edit leaves with what there is.
func (e *Edit) verify(c Change) error { return e.verified(e.im, c) }

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
