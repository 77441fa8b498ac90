package elfedit

import (
	"debug/elf"
	"slices"
	"testing"
)

// versionsOf returns what DT_VERSYM says of each dynamic symbol.
func versionsOf(t *testing.T, b []byte) (at uint64, out []uint16) {
	t.Helper()
	im := parse(t, b)
	d, ok := im.Dyn(elf.DT_VERSYM)
	_, n, known := im.DynSymbols()
	table, mapped := im.Memory(d.Val, 2*n)
	if !ok || !known || !mapped {
		t.Fatalf("DT_VERSYM %#x of %d symbols: %v %v %v", d.Val, n, ok, known, mapped)
	}
	for i := range n {
		out = append(out, im.Order.Uint16(table[2*i:]))
	}
	return d.Val, out
}

// A symbol whose version is cleared is a global one without a version, where the table of
// versions stays and where it moves, also by an edit that follows; the others keep theirs.
func TestVersionsAreCleared(t *testing.T) {
	long := &RunPath{elf.DT_RUNPATH, lists[len(lists)-1]}
	for name, l := range map[string]shape{
		"64 bits":            plain(),
		"32 bits, big":       plain().with(func(l *shape) { l.class, l.order, l.machine = elf.ELFCLASS32, bigOrder, elf.EM_PPC }),
		"no section headers": plain().with(func(l *shape) { l.noSections = true }),
	} {
		l = l.with(func(l *shape) { l.versions, l.program, l.symbols = true, false, []string{"malloc", "free", "calloc"} })
		for _, c := range []struct {
			name  string
			c     Change
			want  []uint16
			moves bool
		}{
			{"one", Change{ClearVersions: []string{"free"}}, []uint16{1, 2, 1, 4}, false},
			{"two, and one that no symbol has", Change{ClearVersions: []string{"calloc", "nothing", "malloc"}}, []uint16{1, 1, 3, 1}, false},
			{"together with what moves the table", Change{ClearVersions: []string{"free", "malloc"}, RunPath: long, DebugTag: true}, []uint16{1, 1, 1, 4}, true},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				b := l.build(t)
				at, _ := versionsOf(t, b)
				after := edit(t, b, c.c)
				now, got := versionsOf(t, after)
				if !slices.Equal(got, c.want) {
					t.Errorf("versions %v, not %v", got, c.want)
				}
				if moves := now != at; moves != c.moves {
					t.Errorf("the table moves: %v", moves)
				}
				if e, err := parse(t, after).plan(c.c); e != nil || err != nil {
					t.Errorf("done once more: %v, %v", e, err)
				}
				if _, got := versionsOf(t, edit(t, after, Change{RunPath: &RunPath{elf.DT_RUNPATH, "/a"}, Soname: ptr("liba.so")})); !slices.Equal(got, c.want) {
					t.Errorf("versions %v after the next edit, not %v", got, c.want)
				}
			})
		}
	}
	b := plain().with(func(l *shape) { l.versions = true }).build(t)
	if e, err := parse(t, b).plan(Change{ClearVersions: []string{"nothing"}}); e != nil || err != nil {
		t.Errorf("a name that no symbol has: %v, %v", e, err)
	}
}

// What clears another version than it was asked to, or none, does not pass for the edit.
func TestOtherVersionsAreNoticed(t *testing.T) {
	b := plain().with(func(l *shape) { l.versions = true }).build(t)
	c := Change{ClearVersions: []string{"free"}}
	im := parse(t, b)
	e, err := im.plan(c)
	if err != nil || len(e.writes) != 1 {
		t.Fatal(e, err)
	}
	right := e.writes[0]
	for name, w := range map[string]write{
		"another symbol": {off: right.off - 2, data: right.data},
		"another value":  {off: right.off, data: []byte{9, 0}},
	} {
		e.writes = []write{w}
		if e.verify(c) == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}
