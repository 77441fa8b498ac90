package fixup

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkNothingToDo is a second run over 1,000 libraries that need three of 200 inputs each:
// reading, resolving and verifying.
func BenchmarkNothingToDo(b *testing.B) {
	s := newStageIn(b)
	for i := range 200 {
		s.put(fmt.Sprintf("in%d/lib/libin%d.so.1", i, i), lib(fmt.Sprintf("libin%d.so.1", i), "libc.so.6").Object)
		s.libs(fmt.Sprintf("~/in%d/lib", i))
	}
	for i := range 1000 {
		name := fmt.Sprintf("libx%d.so", i)
		in := func(n int) string { return fmt.Sprintf("libin%d.so.1", n%200) }
		s.put("out/lib/"+name, lib(name, in(i), in(i+67), in(i+133), "libc.so.6").requires("libc.so.6", "GLIBC_2.2.5").Object)
	}
	r := s.resolve()
	if surprises := r.apply(); len(surprises) > 0 {
		b.Fatal(surprises)
	}
	b.ResetTimer()
	for b.Loop() {
		ix, err := Read(context.Background(), s.src)
		if err != nil {
			b.Fatal(err)
		}
		r, err := NewResolver(ix, s.set)
		if err != nil {
			b.Fatal(err)
		}
		plans := r.ResolveAll(2)
		for _, p := range plans {
			if p.Changes() {
				b.Fatal(p.Object.Path)
			}
		}
		if surprises := ix.verify(); len(surprises) > 0 {
			b.Fatal(surprises)
		}
	}
}
