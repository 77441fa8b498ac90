package elfedit

import (
	"bytes"
	"debug/elf"
	"fmt"
	"testing"
)

// BenchmarkEdit measures what one file costs without its system calls: parsing,
// and planning an edit for each place that a new run path can take. The library has
// 2,000 symbols, about 70 KB of tables.
func BenchmarkEdit(b *testing.B) {
	library := plain().with(func(l *shape) {
		l.program, l.runpath = false, "/nix/store/00000000000000000000000000000000-a-package-1.0/lib"
		for i := range 2000 {
			l.symbols = append(l.symbols, fmt.Sprintf("function_of_the_library_%d", i))
		}
	})
	set := func(list string) Change { return setPath(elf.DT_RUNPATH, list) }
	first := set("/run/opengl-driver/lib:" + library.runpath)
	fresh := library.build(b)
	edited := edit(b, fresh, first)
	for _, bench := range []struct {
		name   string
		file   []byte
		change Change
		grows  bool
	}{
		{"unchanged", edited, first, false},
		{"in padding", library.with(func(l *shape) { l.pad = 80000 }).build(b), first, false},
		{"in room", edited, set("$ORIGIN"), false},
		{"in a new segment", fresh, first, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := bytes.NewReader(bench.file)
			b.ReportAllocs()
			for b.Loop() {
				im, err := parseFile(r, r.Size())
				if err != nil {
					b.Fatal(err)
				}
				e, err := im.plan(bench.change)
				if err != nil || (e == nil) != (bench.name == "unchanged") || e != nil && (e.Growth() > 0) != bench.grows {
					b.Fatalf("not this benchmark's kind of edit: %v, %v", e, err)
				}
				im.Release()
			}
		})
	}
}

// BenchmarkLibraryStrings measures the search for names that dlopen may get, in bytes of constants.
func BenchmarkLibraryStrings(b *testing.B) {
	l := plain()
	l.noSections, l.note = true, 1<<20
	file := l.build(b)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if err := parse(b, file).LibraryStrings(func(string, bool) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
}
