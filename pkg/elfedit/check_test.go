package elfedit

import (
	"debug/elf"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// One byte too many in the list of writes, anywhere in the file, is noticed before
// anything is written: each byte that is not zero is somebody's.
func TestCheckNoticesOneByteTooMany(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, l := range shapes {
		if strings.Contains(name, "across pages") || l.align > 4096 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, list := range []string{lists[1], ""} {
				old := edit(t, l.build(t), setPath(elf.DT_RUNPATH, "/x:"+lists[0]))
				im := parse(t, old)
				c := setPath(elf.DT_RUNPATH, list)
				e, err := im.plan(c)
				if err != nil || e == nil {
					t.Fatal(e, err)
				}
				planned := e.writes
				for off := range im.size {
					covered := slices.ContainsFunc(planned, func(w write) bool { return w.off <= off && off < w.off+w.len() })
					if old[off] == 0 || covered || off >= im.Shoff && off < im.Shoff+uint64(len(im.Sections))*im.ShdrSize() {
						continue
					}
					e.writes = append(slices.Clone(planned), write{off: off, data: []byte{old[off] ^ 0x41}})
					if c, err := c.normal(); err != nil || e.verify(c) == nil {
						t.Fatalf("a change of the byte at offset %#x (of %#x, section headers at %#x) is not noticed", off, im.size, im.Shoff)
					}
				}
			}
		})
	}
}

// What a plan could do wrong in more than one byte is noticed for what it is.
func TestCheckNotices(t *testing.T) {
	other := "/lib/another-loader.so"
	header := func(of elf.ProgType, tamper func(q *elfimage.Prog)) func(_, after *image) write {
		return func(_, after *image) write {
			i := slices.IndexFunc(after.Progs, func(p elfimage.Prog) bool { return p.Type == of })
			q := after.Progs[i]
			tamper(&q)
			w := write{off: after.Phoff + uint64(i)*after.PhdrSize(), data: make([]byte, after.PhdrSize())}
			after.EncodeProg(w.data, q)
			return w
		}
	}
	for want, c := range map[string]struct {
		shape  shape
		tamper func(before, after *image) write // what comes after the edit's own writes
	}{
		"loses DT_SYMENT": {plain(), func(_, after *image) write {
			w := write{off: after.DynOff, data: make([]byte, uint64(len(after.Dynamic)+1)*after.DynSize())}
			rest := w.data
			for _, d := range after.Dynamic {
				if d.Tag != elf.DT_SYMENT {
					after.encodeDyn(rest, d)
					rest = rest[after.DynSize():]
				}
			}
			return w
		}},
		"changes PT_LOAD at": {plain(), header(elf.PT_LOAD, func(q *elfimage.Prog) { q.Flags |= elf.PF_W | elf.PF_X })},
		"changes PT_DYNAMIC": {plain(), header(elf.PT_DYNAMIC, func(q *elfimage.Prog) { q.Flags = elf.PF_X })},
		"loses PT_NOTE":      {plain(), header(elf.PT_NOTE, func(q *elfimage.Prog) { q.Type = elf.PT_NULL })},
		"adds PT_SHLIB": {plain().with(func(l *shape) { l.program, l.null, l.pad = false, true, 4096 }),
			header(elf.PT_NULL, func(q *elfimage.Prog) { q.Type = elf.PT_SHLIB })},
		"overlap that at": {plain().with(func(l *shape) { l.tail, l.skew = strings.Repeat("x", 9000), 256 }), func(_, after *image) write {
			i := slices.IndexFunc(after.Progs, func(p elfimage.Prog) bool { return p.Type == elf.PT_LOAD })
			q, next := after.Progs[i], after.Progs[i+1]
			q.Filesz = next.Vaddr&^0xfff + 1 - q.Vaddr // into the first page of the next one
			q.Memsz = q.Filesz
			w := write{off: after.Phoff + uint64(i)*after.PhdrSize(), data: make([]byte, after.PhdrSize())}
			after.EncodeProg(w.data, q)
			return w
		}},
		"changes a string that something else refers to": {shapes["shared tail"], func(before, after *image) write {
			d, _ := before.Dyn(elf.DT_RUNPATH)
			return write{off: after.StrOff + d.Val, data: make([]byte, len(shapes["shared tail"].runpath))}
		}},
		// In two places of one string, the second of them shared.
		"a string that something else refers to": {shapes["shared tail"], func(before, after *image) write {
			d, _ := before.Dyn(elf.DT_RUNPATH)
			list := make([]byte, len(shapes["shared tail"].runpath))
			list[2] = shapes["shared tail"].runpath[2]
			return write{off: after.StrOff + d.Val, data: list}
		}},
		"reads back with DT_RUNPATH": {plain(), func(_, after *image) write {
			d, _ := after.Dyn(elf.DT_RUNPATH)
			return write{off: after.StrOff + d.Val + 1, data: []byte("y")}
		}},
		"reads back with interpreter": {plain(), func(_, after *image) write {
			return write{off: after.interpText().off + 5, data: []byte("y")}
		}},
	} {
		b := c.shape.build(t)
		change := setPath(elf.DT_RUNPATH, lists[1])
		change.Interpreter = &other
		if !c.shape.program {
			change.Interpreter = nil
		}
		e := planned(t, b, change)
		states := statesOf(t, e)
		e.writes = append(slices.Clone(e.writes), c.tamper(parse(t, b), parse(t, states[len(states)-1])))
		if err := e.verify(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
