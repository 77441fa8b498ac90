package elfedit

import (
	"debug/elf"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// Unused program headers are added in all kinds of files that can have them, and change nothing else.
func TestSpareHeaders(t *testing.T) {
	made := 0
	for name, l := range shapes {
		want := l.pad / 100 // what the shape has room for
		want = max(want, 2)
		old := l.build(t)
		im := parse(t, old)
		before := mustView(t, im)
		e, err := im.plan(Change{Spare: want})
		if err != nil {
			if !strings.Contains(err.Error(), "no room for what is new") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		made++
		for n, b := range statesOf(t, e) {
			if view, err := loaderView(parse(t, b)); strip(view) != strip(before) || err != nil {
				t.Errorf("%s: after %d of %d writes the loader sees\n%s(%v)\nbefore\n%s", name, n, len(e.writes), view, err, before)
			}
		}
		b := edit(t, old, Change{Spare: want})
		after := parse(t, b)
		if n := after.unusedProgs(); n != want {
			t.Errorf("%s: %d unused program headers", name, n)
		}
		if view := mustView(t, after); view != before {
			t.Errorf("%s: the loader sees\n%s\nbefore\n%s", name, view, before)
		}
		checkSections(t, after)
		for _, n := range []int{0, want} {
			if e, err := after.plan(Change{Spare: n}); e != nil || err != nil {
				t.Errorf("%s: again: %v, %v", name, e, err)
			}
		}
	}
	if made < len(shapes)*2/3 {
		t.Errorf("only %d of %d shapes", made, len(shapes))
	}
}

// A file without .dynamic, such as a static program of MIPS with .MIPS.options behind its headers, has them or is refused.
func TestSpareHeadersWithoutDynamic(t *testing.T) {
	refused := 0
	for name, l := range shapes {
		if l.class != elf.ELFCLASS64 || l.order != littleOrder {
			continue
		}
		b := l.build(t)
		damage{b, parse(t, b)}.prog(elf.PT_DYNAMIC, 0, func(p *elfimage.Prog) { *p = elfimage.Prog{} })
		im := parse(t, b)
		for n := 1; n < 6; n++ {
			if _, err := im.plan(Change{Spare: n}); err == nil {
			} else if !strings.Contains(err.Error(), "no room for what is new") {
				t.Errorf("%s: %v", name, err)
			} else if strings.Contains(err.Error(), "in a file without a dynamic section") {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("no shape has something in front")
	}
}
