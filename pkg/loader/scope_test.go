package loader

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
)

// cc compiles a source to a file of the folder.
func (s *stage) cc(source, out string, args ...string) {
	s.Helper()
	cmd := exec.Command("cc", append([]string{"-xc", "-", "-xnone", "-O1", "-ftls-model=initial-exec", "-o", out}, args...)...)
	cmd.Stdin = strings.NewReader(source)
	if b, err := cmd.CombinedOutput(); err != nil {
		s.Skipf("cc: %v, %.300s", err, b)
	}
}

// shared is cc for a library without anything of the C library.
func (s *stage) shared(source, out string, args ...string) {
	s.Helper()
	s.cc(source, out, append([]string{"-shared", "-fPIC", "-nostdlib", "-Wl,-soname," + out, "-Wl,--hash-style=gnu"}, args...)...)
}

// unbound returns the references of the first file that stay unbound among all of them, in that order, under a loader.
func (s *stage) unbound(in *Interpreter, names ...string) (out []string) {
	s.Helper()
	l, err := New(Options{})
	if err != nil {
		s.Fatal(err)
	}
	var objects []*Object
	for _, n := range names {
		f := l.files.Open(s.dir + "/" + n)
		objects = append(objects, &Object{Name: n, Path: n, File: f, names: []string{n}})
	}
	for range 2 { // the second time is answered from what the first has found
		scope, err := NewScope(in, objects)
		if err != nil {
			s.Fatal(err)
		}
		all, err := scope.Unbound(objects[0])
		if err != nil {
			s.Fatal(err)
		}
		out = nil
		for _, u := range all {
			text := u.Name
			if v := u.Needs(); v != "" {
				text += "@" + v
			}
			if u.Late {
				text += " late"
			}
			if u.Aborts != nil {
				text += " aborts at " + u.Aborts.Name
			}
			out = append(out, text)
		}
		slices.Sort(out)
	}
	return out
}

// What nothing defines, and when that is found: functions that are bound lazily when they are called, everything else when
// the file is loaded.
func TestUnboundReferences(t *testing.T) {
	s := newStage(t)
	glibc, musl := &Interpreter{Kind: GLibc, Version: 36}, &Interpreter{Kind: Musl}
	const source = `extern int call(void), twice(void), data, weak(void) __attribute__((weak)); extern __thread int tls;
int own(void) { return call() + twice() + data + (weak ? weak() : 0) + tls; } int (*kept)(void) = twice; int own2(void) { return own(); }`
	check := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	s.shared(source, "lazy.so", "-Wl,-z,lazy")
	check("lazy", s.unbound(glibc, "lazy.so"), "call late", "data", "tls", "twice")
	check("musl binds at once", s.unbound(musl, "lazy.so"), "call", "data", "tls", "twice")
	s.shared(source, "now.so", "-Wl,-z,now")
	check("now", s.unbound(glibc, "now.so"), "call", "data", "tls", "twice")
	s.shared(source, "noplt.so", "-Wl,-z,lazy", "-fno-plt")
	check("called through the GOT", s.unbound(glibc, "noplt.so"), "call", "data", "tls", "twice")
	s.shared("int call(void) { return 1; } int other;", "gnu.so")
	s.shared("int twice(void) { return 2; } __thread int tls; int data;", "sysv.so", "-Wl,--hash-style=sysv")
	check("all are there", s.unbound(glibc, "lazy.so", "gnu.so", "sysv.so"))
	check("what once sufficed is not there", s.unbound(glibc, "lazy.so", "sysv.so"), "call late")
	s.shared(`int __attribute__((visibility("hidden"))) call(void) { return 1; } static int twice(void) { return 1; } int kept(void) { return call() + twice(); }
extern int data; int *at(void) { return &data; }`, "hidden.so")
	check("hidden, local and undefined symbols do not count", s.unbound(glibc, "lazy.so", "hidden.so"), "call late", "data", "tls", "twice")
	s.cc("extern int data; extern int call(void); int main(void) { return data + call(); }", "p", "-no-pie", "-fno-pic", "-Wl,--unresolved-symbols=ignore-all,-z,lazy", "-nostartfiles", "gnu.so", "sysv.so")
	check("a copy is not bound to the program itself", s.unbound(glibc, "p", "gnu.so"), "data")
	check("a copy", s.unbound(glibc, "p", "gnu.so", "sysv.so"))
}

// glibc before 2.41 ends the process where it binds a symbol to a library that was to have a version of it and has no
// DT_VERSYM; musl compares no versions.
func TestLibraryWithoutVersions(t *testing.T) {
	s := newStage(t)
	s.raw("map1", "E_1 { global: e; local: *; };")
	s.raw("map2", "E_2 { global: e; local: *; };")
	s.shared("int e(void) { return 1; }", "libe.so", "-Wl,--version-script=map1")
	s.shared("int e(void); int f(void) { return e(); }", "user.so", "libe.so", "-Wl,-z,lazy")
	s.shared("int e(void); int (*f)(void) = e;", "data.so", "libe.so")
	s.shared("int e(void) { return 2; }", "libe.so", "-Wl,--version-script=map2")
	versions := func(v Version) *Interpreter { return &Interpreter{Kind: GLibc, Version: v} }
	check := func(in *Interpreter, files string, want ...string) {
		t.Helper()
		if got := s.unbound(in, strings.Fields(files)...); !slices.Equal(got, want) {
			t.Errorf("%s, %s: %q, want %q", in.Describe(), files, got, want)
		}
	}
	check(versions(36), "user.so libe.so", "e@E_1 late")
	s.shared("int e(void) { return 3; } int g(void) { return 3; }", "libe.so")
	s.shared("int e(void) { return 4; }", "other.so")
	s.shared("int g(void) { return 4; }", "none.so")
	check(versions(40), "user.so libe.so", "e@E_1 late aborts at libe.so")
	check(versions(40), "data.so none.so libe.so", "e@E_1 aborts at libe.so")
	check(versions(40), "user.so other.so libe.so") // whose versions are not asked for
	check(versions(41), "user.so libe.so")
	check(&Interpreter{Kind: Musl}, "user.so libe.so")
}

// What that means for a program, and for what it opens.
func TestProgramOfALibraryWithoutVersions(t *testing.T) {
	s := newStage(t)
	s.raw("map", "E_1 { global: e; local: *; };")
	build := func() {
		s.Helper()
		s.shared("int e(void) { return 1; }", "libe.so", "-Wl,--version-script=map")
		const call, keep = "int e(void); int main(void) { return e() - 1; }", "int e(void); int (*f)(void) = e; int main(void) { return 0; }"
		s.cc(call, "late", "libe.so", "-Wl,-z,lazy,-rpath,"+s.dir, "-fno-pie", "-no-pie")
		s.cc(call, "now", "libe.so", "-Wl,-z,now,-rpath,"+s.dir)
		s.cc(keep, "data", "libe.so", "-Wl,-z,lazy,-rpath,"+s.dir)
		s.cc("int main(void) { return 0; }", "opens", "-Wl,-rpath,"+s.dir)
		s.shared("int e(void); int f(void) { return e(); }", "plugin-late.so", "libe.so", "-Wl,-z,lazy,-rpath,"+s.dir)
		s.shared("int e(void); int f(void) { return e(); }", "plugin-now.so", "libe.so", "-Wl,-z,now,-rpath,"+s.dir)
	}
	build()
	whole := s.load("late")
	if v := whole.Interp.Version; len(whole.Objects[1].Lacks) > 0 || v > lastAssert {
		t.Skip("glibc ", v)
	}
	s.shared("int e(void) { return 1; }", "libe.so")
	for name, late := range map[string]bool{"late": true, "now": false, "data": false} {
		l := s.load(name)
		lacks := l.Objects[1].Lacks
		if len(lacks) != 1 || lacks[0].Version != "E_1" || lacks[0].Symbol != "e" || lacks[0].Late != late || (l.Err == "") != late {
			t.Errorf("%s: %+v %q", name, lacks, l.Err)
		}
		if late != (l.Objects[1].Fails() == "") {
			t.Errorf("%s: %q", name, l.Objects[1].Fails())
		}
		cmd := exec.Command("./" + name)
		cmd.Env = []string{"LC_ALL=C"}
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "Inconsistency detected by ld.so: dl-lookup.c") {
			t.Errorf("%s: the real loader says %q", name, out)
		}
	}
	for name, opens := range map[string]bool{"plugin-late.so": true, "plugin-now.so": false} {
		l := s.load("opens")
		p := l.Open(name, l.Main, DlopenAsked, "")
		if (p.Why == "") != opens || !opens && !strings.Contains(p.Why, "it has no symbol versions, and where") {
			t.Errorf("%s: %q", name, p.Why)
		}
	}
	f := files.New(files.Options{})
	by, lib := f.Open(s.dir+"/late"), f.Open(s.dir+"/libe.so")
	if AssertsFor(lib, by, "libe.so", 40) != "e" || AssertsFor(lib, by, "libe.so", 41)+AssertsFor(by, by, "libe.so", 40) != "" {
		t.Error(AssertsFor(lib, by, "libe.so", 40), AssertsFor(lib, by, "libe.so", 41), AssertsFor(by, by, "libe.so", 40))
	}
}

// A table in which a name is compared with many others comes to an end.
func TestSymbolsThatAreCompared(t *testing.T) {
	s := newStage(t)
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "int many%d(void) { return %d; }\n", i, i)
	}
	s.shared(many.String(), "many.so", "-Wl,--hash-style=sysv")
	f := files.New(files.Options{}).Open(s.dir + "/many.so")
	l, err := f.Linkage()
	if err != nil || !l.Exports() || l.Symbols < 3000 {
		t.Fatal(l, err)
	}
	r := elfimage.Reference{Name: "many77"}
	budget := 1 << 20
	if !l.Defines(&r, false, &budget) {
		t.Error("not found")
	}
	if budget = 0; l.Defines(&r, false, &budget) {
		t.Error("found without comparing")
	}
}
