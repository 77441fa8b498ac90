package loader

import (
	"debug/elf"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"cuda-runpath/pkg/loader/tinyelf"
)

// account is all that a load says.
func account(s *Load) string {
	var b strings.Builder
	name := func(o *Object) string {
		if o == nil {
			return "-"
		}
		return fmt.Sprintf("%s=%s", o.Name, o.Path)
	}
	object := func(o *Object) {
		fmt.Fprintf(&b, "%s by %s %q of %s for %s (%s) %q %q %v %v %v\n", name(o), o.Rule, o.Entry, name(o.List), name(o.NeededBy), o.Cause,
			o.Err, o.Why, o.names, o.missing, o.late)
		for _, t := range o.Tried {
			fmt.Fprintf(&b, "  tried %s %s %s\n", t.Path, name(t.List), t.Why)
		}
		for _, l := range o.Lacks {
			fmt.Fprintf(&b, "  lacks %s for %s\n", l.Version, name(l.By))
		}
		for _, u := range o.Uses {
			fmt.Fprintf(&b, "  uses %s: %s (%s) %q %v\n", u.Name, name(u.To), u.Cause, u.Feature, u.Again)
		}
	}
	fmt.Fprintf(&b, "%q %v %v %s\n", s.Err, s.Static, s.Secure, name(s.self))
	for _, o := range s.Objects {
		object(o)
	}
	for _, a := range s.Audits {
		b.WriteString("audit " + account(a))
	}
	return b.String()
}

// A load is the same in memory that others have used before it.
func TestReleasedMemoryIsAsNew(t *testing.T) {
	st := newStage(t)
	rng := rand.New(rand.NewSource(3))
	const libraries, programs = 30, 40
	soname := func() string { return fmt.Sprintf("lib%d.so", rng.Intn(libraries+4)) } // four are missing
	dirs := []string{"~/a", "~/b", "$ORIGIN/a", "$ORIGIN/../b", "", "~/none"}
	dress := func(o tinyelf.Object) tinyelf.Object {
		for range rng.Intn(6) {
			o = o.Needs(soname())
		}
		if rng.Intn(2) == 0 {
			tag := []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH}[rng.Intn(2)]
			o = o.With(tag, dirs[rng.Intn(len(dirs))]+":"+dirs[rng.Intn(len(dirs))])
		}
		switch rng.Intn(8) {
		case 0:
			o = o.With(elf.DT_AUXILIARY, soname())
		case 1:
			o = o.With(elf.DT_FILTER, soname())
		case 2:
			o = o.With(dtAudit, soname()+":"+soname())
		case 3:
			o.Requires = []tinyelf.Requirement{{Library: soname(), Version: "V_9"}}
		}
		return o
	}
	for i := range libraries {
		l := dress(lib(fmt.Sprintf("lib%d.so", rng.Intn(libraries))))
		l.Defines = []string{"V_1"}
		st.put(fmt.Sprintf("%s/lib%d.so", []string{"a", "b"}[rng.Intn(2)], i), l)
	}
	for i := range programs {
		st.put(fmt.Sprintf("p%d", i), dress(prog(soname())))
	}
	st.o.LibraryPath, st.o.Preload = st.dir+"/b", "lib1.so lib2.so"
	load := func(l *Loader, i int) *Load {
		s, err := l.Load(fmt.Sprintf("%s/p%d", st.dir, i))
		if err != nil {
			t.Fatal(err)
		}
		s.Dlopen("lib3.so", s.Main, DlopenAsked, "")
		return s
	}
	fresh, err := New(st.o)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := New(st.o)
	want := map[int]string{}
	for i := range programs {
		want[i] = account(load(fresh, i))
	}
	for range 10 * programs {
		i := rng.Intn(programs)
		s := load(again, i)
		if got := account(s); got != want[i] {
			t.Fatalf("p%d:\n%s\nin new memory:\n%s", i, got, want[i])
		}
		s.Release()
	}
}
