package fixup

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/tests/tinyelf"
)

// stage is a store in a folder: glibc/lib has an interpreter and a C library, out is the
// tree. "~" stands for the folder.
type stage struct {
	testing.TB
	dir string
	src Sources
	set Settings
}

const libC = "glibc/lib/libc.so.6"

func newStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	return newStageIn(t)
}

// newStageIn is newStage for a benchmark, and for a test that makes several.
func newStageIn(t testing.TB) *stage {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{TB: t, dir: dir}
	s.put("glibc/lib/ld-linux-x86-64.so.2", loaderOf(dir+"/glibc/lib"))
	s.put(libC, lib("libc.so.6").defines("GLIBC_2.2.5", "GLIBC_2.34").Object)
	s.put("glibc/lib/libm.so.6", lib("libm.so.6").defines("GLIBC_2.2.5").Object)
	s.mkdir("out")
	s.src = Sources{Paths: []string{dir + "/out"}, Store: dir, Jobs: 2}
	s.set = Settings{Interpreters: []Interpreter{{Path: dir + "/glibc/lib/ld-linux-x86-64.so.2", LibC: dir + "/glibc/lib"}}}
	return s
}

// loaderOf is a loader whose one default directory is dir, as pkg/loader reads one.
func loaderOf(dir string) tinyelf.Object {
	return tinyelf.Object{Data: "\x00stable release version 2.36\x00" + dir + "/\x00"}.With(elf.DT_SONAME, "ld-linux-x86-64.so.2")
}

// object is a tinyelf.Object that says more about itself.
type object struct{ tinyelf.Object }

func lib(soname string, needed ...string) object {
	return object{tinyelf.Object{}.With(elf.DT_SONAME, soname).Needs(needed...)}
}

func prog(needed ...string) object {
	return object{tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs(needed...)}
}

func (o object) with(tag elf.DynTag, s string) object { return object{o.With(tag, s)} }
func (o object) defines(v ...string) object           { o.Defines = v; return o }
func (o object) requires(library, version string) object {
	o.Requires = append(o.Requires[:len(o.Requires):len(o.Requires)], tinyelf.Requirement{Library: library, Version: version})
	return o
}

// opens is a program that names dlopen among its symbols, as a version that it can do without.
func (o object) opens(library string) object {
	o.Requires = append(o.Requires, tinyelf.Requirement{Library: library, Version: "dlopen", Weak: true})
	return o
}

func (o object) with32bits() object {
	o.Class, o.Machine = elf.ELFCLASS32, elf.EM_386
	return o
}

func (s *stage) path(p string) string { return strings.ReplaceAll(p, "~", s.dir) }

func (s *stage) mkdir(name string) {
	s.Helper()
	if err := os.MkdirAll(s.dir+"/"+name, 0o755); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) put(name string, o tinyelf.Object) {
	s.Helper()
	for i := range o.Strings {
		o.Strings[i].Str = s.path(o.Strings[i].Str)
	}
	o.Interp = s.path(o.Interp)
	s.raw(name, string(o.Bytes()))
}

func (s *stage) raw(name, contents string) {
	s.Helper()
	s.mkdir(filepath.Dir(name))
	if err := os.WriteFile(s.dir+"/"+name, []byte(contents), 0o755); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) link(target, name string) {
	s.Helper()
	s.mkdir(filepath.Dir(name))
	if err := os.Symlink(s.path(target), s.dir+"/"+name); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) libs(dirs ...string) {
	for _, d := range dirs {
		s.src.Libs = append(s.src.Libs, s.path(d))
	}
}

// run is one resolution of the tree.
type run struct {
	*stage
	index    *Index
	resolver *Resolver
	plans    []*Plan
	by       map[string]*Plan // by the path below the folder
}

func (s *stage) resolve() *run {
	s.Helper()
	ix, err := Read(context.Background(), s.src)
	if err != nil {
		s.Fatal(err)
	}
	r, err := NewResolver(ix, s.set)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(ix.Close)
	out := &run{s, ix, r, nil, map[string]*Plan{}}
	out.plans = r.ResolveAll(s.src.Jobs)
	for _, p := range out.plans {
		out.by[strings.TrimPrefix(p.Object.Path, s.dir+"/")] = p
	}
	return out
}

// surprise is what a test compares of a [Surprise].
type surprise struct{ File, Text string }

// apply edits the files, also those of which the loader would not do what is planned, and
// returns what it would do instead. That is the same before the edit and after it.
func (r *run) apply() []surprise {
	r.Helper()
	told := func(all []Surprise) (out []surprise) {
		r.Helper()
		for _, s := range all {
			if s.err != nil {
				r.Errorf("%s: %v", s.plan.Object.Path, s.err)
			}
			out = append(out, surprise{s.plan.Object.Path, s.text})
		}
		return out
	}
	before := told(r.index.verify())
	var steps []Step
	for _, p := range r.plans {
		if p.Changes() {
			steps = append(steps, step(p.Object, p.Object.state(), p.State()))
		}
	}
	err := Apply(context.Background(), steps, Carrying{Jobs: 2}, func(res Result) {
		if res.Err != nil {
			r.Errorf("%s: %v", res.Path, res.Err)
		}
	})
	if err != nil {
		r.Fatal(err)
	}
	l, err := loader.New(loader.Options{NoTries: true})
	if err != nil {
		r.Fatal(err)
	}
	r.index.loader = l
	if w := r.index.asked; w != nil { // the files themselves are asked now
		for _, s := range steps {
			r.by[strings.TrimPrefix(s.At.Path, r.dir+"/")].changes = false
		}
		w.ask(nil)
	}
	after := told(r.index.verify())
	sorted := cmpopts.SortSlices(func(a, b surprise) bool { return a.File < b.File }) // of those that are alike one is looked at first
	if diff := cmp.Diff(after, before, sorted); diff != "" {
		r.Errorf("what was foreseen differs from what is (-is +foreseen):\n%s", diff)
	}
	return after
}

func (r *run) plan(file string) *Plan {
	r.Helper()
	p := r.by[file]
	if p == nil {
		r.Fatalf("no plan for %s", file)
	}
	return p
}

// list checks the run path that a file is to have.
func (r *run) list(file, want string) {
	r.Helper()
	p := r.plan(file)
	if p.Err != nil || p.Skip != "" {
		r.Errorf("%s: error %v, skipped because %s", file, p.Err, p.Skip)
	}
	if diff := cmp.Diff(r.path(want), p.After.String()); diff != "" {
		r.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// need returns what came of a file's need for a name.
func (r *run) need(file, name string) *Need {
	r.Helper()
	for _, n := range r.plan(file).Needs {
		if n.Label() == name {
			return n
		}
	}
	r.Fatalf("%s does not need %s", file, name)
	return nil
}

func (r *run) outcome(file, name string, want Outcome) *Need {
	r.Helper()
	n := r.need(file, name)
	if n.Outcome != want {
		r.Errorf("%s: %s is %q, want %q", file, name, n.Outcome, want)
	}
	return n
}

// rejected checks why the first candidate for a need was not taken.
func (r *run) rejected(file, name, p, why string) {
	r.Helper()
	n := r.need(file, name)
	if len(n.Rejected) == 0 {
		r.Errorf("%s: nothing was rejected for %s", file, name)
	} else if got := n.Rejected[0]; got.Path != r.path(p) || got.Why != why {
		r.Errorf("%s: rejected %s, which %q; want %s, which %q", file, got.Path, got.Why, r.path(p), why)
	}
}

// skipped checks why a file is skipped.
func (r *run) skipped(file, why string, warn bool) {
	r.Helper()
	p := r.plan(file)
	if p.Skip != why || p.SkipWarn != warn {
		r.Errorf("%s: skipped because %q (a warning: %v), want %q (%v)", file, p.Skip, p.SkipWarn, why, warn)
	}
	if p.Changes() {
		r.Errorf("%s: is changed", file)
	}
}

func dlopenNote(priority string, sonames ...string) string {
	return fmt.Sprintf(`[{"soname":["%s"],"feature":"x","priority":%q}]`, strings.Join(sonames, `","`), priority)
}

func step(o *Object, from, to State) Step { return Step{At: o.at, From: from, To: to} }
