package fixup

import (
	"bytes"
	"debug/elf"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/tests/tinyelf"
)

// The numbers are those of the table in cmd/autoPatchelf/README.md.

// forNames makes a Sources.Literals that asks all files for the same names.
func forNames(f func(string) bool) func(*Object) func(string) bool {
	return func(*Object) func(string) bool { return f }
}

// ------------------------------------------------------------------- 1 to 3: as nixpkgs' program does

func TestRule2FilesThatAreSkipped(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so.1", lib("libfoo.so.1").Object)
	s.libs("~/foo/lib")
	s.put("out/main", prog("libfoo.so.1").Object)
	static := prog()
	static.Interp, static.Type = "", elf.ET_EXEC
	static.Strings = nil
	s.put("out/static", static.Object)
	other := prog("libfoo.so.1")
	other.Machine = elf.EM_AARCH64
	s.put("out/arm", other.Object)
	s.put("out/main32", prog("libfoo.so.1").with32bits().Object)
	bsd := prog("libfoo.so.1")
	bsd.OSABI = elf.ELFOSABI_FREEBSD
	s.put("out/bsd", bsd.Object)
	s.put("out/ld.so", loaderOf("/x/lib"))
	s.raw("out/text", "libfoo.so.1\n")
	s.raw("out/short", "\x7fELF")
	whole := string(prog("libfoo.so.1").Bytes())
	s.raw("out/cut", whole[:len(whole)/4])
	if err := os.Link(s.dir+"/out/main", s.dir+"/out/z"); err != nil {
		t.Fatal(err)
	}
	s.link("main", "out/link")
	r := s.resolve()
	r.list("out/main", "~/foo/lib")
	r.skipped("out/arm", "its architecture (AARCH64, 64 bits) differs from target (X86_64, 64 bits)", false)
	r.skipped("out/main32", "its architecture (386, 32 bits) differs from target (X86_64, 64 bits)", false)
	r.skipped("out/z", "the same file as "+s.dir+"/out/main", false)
	if p := r.plan("out/static"); p.Skip == "" || p.SkipWarn {
		t.Errorf("static: %+v", p)
	}
	if p := r.plan("out/cut"); !strings.HasPrefix(p.Skip, "it is malformed: ") || !p.SkipWarn {
		t.Errorf("cut: %q", p.Skip)
	}
	if r.by["out/text"] != nil || r.by["out/link"] != nil || r.index.Others == 0 {
		t.Error("what is no ELF file, or a link, has a plan")
	}
	// System V's ABI goes with every other.
	r.list("out/bsd", "~/foo/lib")
}

func TestRule2OSABIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b elf.OSABI
		want bool
	}{
		{elf.ELFOSABI_NONE, elf.ELFOSABI_LINUX, true}, {elf.ELFOSABI_LINUX, elf.ELFOSABI_NONE, true},
		{elf.ELFOSABI_LINUX, elf.ELFOSABI_LINUX, true}, {elf.ELFOSABI_FREEBSD, elf.ELFOSABI_LINUX, false},
	} {
		if compatible(c.a, c.b) != c.want {
			t.Errorf("%v, %v", c.a, c.b)
		}
	}
}

func TestRule2AnotherOSABIThanTheInterpreters(t *testing.T) {
	s := newStage(t)
	loader := loaderOf(s.dir + "/glibc/lib")
	loader.OSABI = elf.ELFOSABI_LINUX
	s.put("glibc/lib/ld-linux-x86-64.so.2", loader)
	o := prog()
	o.OSABI = elf.ELFOSABI_FREEBSD
	s.put("out/main", o.Object)
	s.resolve().skipped("out/main", "its OS ABI (ELFOSABI_FREEBSD) is not compatible with target (ELFOSABI_LINUX)", false)
}

func TestRule2TheCLibraryNeedsNoEntry(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so.1", lib("libfoo.so.1").Object)
	s.put("foo/lib/libm.so.6", lib("libm.so.6").Object)
	s.libs("~/foo/lib")
	s.put("out/main", prog("libc.so.6", "libm.so.6").Object)
	r := s.resolve()
	r.outcome("out/main", "libc.so.6", InLibC)
	r.outcome("out/main", "libm.so.6", InLibC)
	r.list("out/main", "")
	if p := r.plan("out/main"); p.Interpreter != s.path("~/glibc/lib/ld-linux-x86-64.so.2") || !p.Changes() {
		t.Errorf("interpreter %q", p.Interpreter)
	}

	s.set.KeepLibC = true
	s.libs("~/glibc/lib")
	r = s.resolve()
	r.outcome("out/main", "libm.so.6", Found)
	r.list("out/main", "~/foo/lib:~/glibc/lib") // so that libm.so.6 is foo's, as chosen
}

func TestRule2KeepLibCFallsBackToTheCLibrary(t *testing.T) {
	s := newStage(t)
	s.set.KeepLibC = true
	s.put("out/main", prog("libc.so.6").Object)
	r := s.resolve()
	r.outcome("out/main", "libc.so.6", InLibC)
	r.list("out/main", "")
}

func TestRule2OrderOfTheRunPath(t *testing.T) {
	s := newStage(t)
	for _, n := range []string{"a", "b", "c"} {
		s.put(n+"/lib/lib"+n+".so", lib("lib"+n+".so").Object)
	}
	s.libs("~/c/lib", "~/a/lib", "~/b/lib")
	main := prog("libb.so", "liba.so", "libb.so").with(elf.DT_RUNPATH, "/build/x")
	main.Dlopen = dlopenNote("required", "libgone.so", "libc.so")
	s.put("out/main", main.Object)
	plugin := lib("plugin.so", "liba.so")
	s.put("out/plugin.so", plugin.Object)
	s.put("out/alone.so", lib("alone.so").with(elf.DT_RUNPATH, "/build/y").Object)
	s.set.RuntimeDependencies = []string{s.path("~/late//lib/"), s.path("~/a/lib")}
	s.set.AppendRunpaths = []string{"$ORIGIN", s.path("~/b/lib")}
	r := s.resolve()
	r.list("out/main", "~/late/lib:~/a/lib:~/b/lib:~/c/lib:$ORIGIN")
	r.list("out/plugin.so", "~/a/lib:$ORIGIN:~/b/lib")
	r.list("out/alone.so", "$ORIGIN:~/b/lib")

	s.set.AppendRunpaths = nil
	r = s.resolve()
	r.list("out/alone.so", "/build/y") // nothing asks for another
	if r.plan("out/alone.so").Changes() {
		t.Error("alone.so is changed")
	}
	s.set.Dlopen = true
	s.src.Literals = forNames(driver.NeedsDriver)
	s.resolve().list("out/plugin.so", "~/late/lib:~/a/lib")
}

func TestRule2AbsoluteNames(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so.1", lib("libfoo.so.1").Object)
	s.put("bar/lib/libgone.so.1", lib("libgone.so.1").Object)
	s.libs("~/bar/lib")
	s.put("directory/libdir.so.1/x", lib("x").Object)
	s.put("out/main", prog("~/foo/lib/libfoo.so.1", "/nowhere/libgone.so.1", "/nowhere/libnone.so.1", "~/directory/libdir.so.1").Object)
	r := s.resolve()
	r.outcome("out/main", s.path("~/directory/libdir.so.1"), Missing)
	r.outcome("out/main", s.path("~/foo/lib/libfoo.so.1"), Absolute)
	r.outcome("out/main", "/nowhere/libgone.so.1", Found) // by its last part, as nixpkgs' program does
	r.outcome("out/main", "/nowhere/libnone.so.1", Missing)
	r.list("out/main", "~/bar/lib")
}

func TestRule2DirectoryOfALink(t *testing.T) {
	s := newStage(t)
	s.put("real/lib/libsame.so", lib("libsame.so").Object)
	s.put("real/lib/libother.so.1.2", lib("libother.so.1").Object)
	s.link("~/real/lib/libsame.so", "foo/lib/libsame.so")
	s.link("../../real/lib/libother.so.1.2", "foo/lib/libother.so.1")
	s.put("files/libalone.so", lib("libalone.so").Object)
	s.libs("~/foo/lib", "~/files/libalone.so")
	s.put("out/main", prog("libsame.so", "libother.so.1", "libalone.so").Object)
	s.resolve().list("out/main", "~/real/lib:~/foo/lib:~/files")
}

func TestRule2TheTreesOwnLibrariesFirst(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.libs("~/foo/lib")
	s.put("out/deep/er/libfoo.so", lib("libfoo.so").Object)
	s.put("out/main", prog("libfoo.so").Object)
	s.put("out/sub/plugin", lib("", "libfoo.so").Object)
	s.resolve().list("out/main", "~/out/deep/er")
	s.src.WithoutTree = true
	s.resolve().list("out/main", "~/foo/lib")
	s.src.WithoutTree, s.src.Shallow = false, true
	r := s.resolve()
	r.list("out/main", "~/foo/lib")
	if len(r.plans) != 1 {
		t.Errorf("%d plans without the directories", len(r.plans))
	}
}

func TestRule3TagAndForceRPath(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.libs("~/foo/lib")
	s.put("out/old", prog("libfoo.so").with(elf.DT_RPATH, "~/foo/lib").Object)
	s.put("out/both", prog("libfoo.so").with(elf.DT_RPATH, "/x").with(elf.DT_RUNPATH, "~/foo/lib").Object)
	s.put("out/right", prog("libfoo.so").with(elf.DT_RUNPATH, "~/foo/lib").Object)
	s.set.KeepInterpreter = true
	r := s.resolve()
	for file, want := range map[string]bool{"out/old": true, "out/both": true, "out/right": false} {
		if p := r.plan(file); p.Changes() != want || p.State().Tag != elf.DT_RUNPATH || p.Interpreter != "" {
			t.Errorf("%s changes: %v, %v", file, p.Changes(), p.State())
		}
	}
	s.set.Tag = elf.DT_RPATH
	r = s.resolve()
	for file, want := range map[string]bool{"out/old": false, "out/right": true} {
		if p := r.plan(file); p.Changes() != want || p.State().Tag != elf.DT_RPATH {
			t.Errorf("%s changes with --force-rpath: %v, %v", file, p.Changes(), p.State())
		}
	}
}

// ------------------------------------------------------------------------------- 4: the inputs alone

func TestRule4NotTheOrderOfADirectory(t *testing.T) {
	for _, order := range [][]string{{"a", "b", "c/d"}, {"c/d", "b", "a"}} {
		s := newStageIn(t)
		for _, d := range order {
			s.put("out/"+d+"/libfoo.so", lib("libfoo.so").Object)
		}
		s.put("out/z/main", prog("libfoo.so").Object)
		s.resolve().list("out/z/main", "~/out/a")
	}
}

// Of several arguments, the first; in it, what lies higher.
func TestRule4OrderOfTheTreesCandidates(t *testing.T) {
	s := newStage(t)
	s.put("first/a/b/libfoo.so", lib("libfoo.so").Object)
	s.put("first/z/libfoo.so", lib("libfoo.so").Object)
	s.put("second/libfoo.so", lib("libfoo.so").Object)
	s.put("second/bin/main", prog("libfoo.so").Object)
	s.src.Paths = []string{s.path("~/first"), s.path("~/second")}
	s.resolve().list("second/bin/main", "~/first/z")
	s.src.Paths = []string{s.path("~/second"), s.path("~/first")}
	s.resolve().list("second/bin/main", "~/second")
}

// What a file's own run path leads to, then what lies beside it.
func TestRule4EachFileItsOwn(t *testing.T) {
	s := newStage(t)
	for _, d := range []string{"a", "b", "c"} {
		s.put("out/"+d+"/libfoo.so", lib("libfoo.so").Object)
		s.put("out/"+d+"/main", prog("libfoo.so").Object)
	}
	s.put("out/d/main", prog("libfoo.so").with(elf.DT_RUNPATH, "/gone:$ORIGIN/../c").Object)
	r := s.resolve()
	r.list("out/b/main", "~/out/b")
	r.list("out/c/main", "~/out/c")
	r.list("out/d/main", "~/out/c")
}

// -------------------------------------------------------------------------------- 6: one edit a file

func TestRule6WhatIsRightIsNotWritten(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.libs("~/foo/lib")
	s.put("out/main", prog("libfoo.so", "libc.so.6").Object)
	s.put("out/plugin.so", lib("plugin.so", "libfoo.so").Object)
	if surprises := s.resolve().apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
	r := s.resolve()
	for _, p := range r.plans {
		if p.Changes() {
			t.Errorf("%s is changed again: %v", p.Object.Path, p.State())
		}
	}
	r.list("out/main", "~/foo/lib")
	if o := r.plan("out/main").Object; o.Interp != s.path("~/glibc/lib/ld-linux-x86-64.so.2") {
		t.Errorf("interpreter %s", o.Interp)
	}
}

func TestRule6AFileThatOthersChangedStays(t *testing.T) {
	s := newStage(t)
	s.put("out/main", prog().with(elf.DT_RUNPATH, "/theirs").Object)
	main := s.resolve().plan("out/main").Object
	now := State{Tag: elf.DT_RUNPATH, List: "/theirs", Interpreter: "/lib64/ld-linux-x86-64.so.2"}
	for _, c := range []struct {
		step Step
		err  error
		then string
	}{
		{step(main, State{Tag: elf.DT_RUNPATH, List: "/mine"}, State{Tag: elf.DT_RUNPATH, List: "/new", Interpreter: now.Interpreter}), errMeanwhile, "/theirs"},
		{step(main, State{Tag: elf.DT_RUNPATH, List: "/mine"}, now), nil, "/theirs"}, // an earlier run came this far
		{step(main, now, State{Tag: elf.DT_RUNPATH, List: "/new", Interpreter: now.Interpreter}), nil, "/new"},
	} {
		err := Apply(t.Context(), []Step{c.step}, Carrying{}, func(r Result) {
			if edited := c.then == "/new"; r.Err != c.err || r.Edited != edited || r.Before != now || r.After.List != c.then {
				t.Errorf("%+v: %+v", c.step, r)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if p := s.resolve().plan("out/main"); p.Object.List != c.then {
			t.Errorf("%+v: then %s", c.step, p.Object.List)
		}
	}
}

// Files that a package manager has linked from its cache: a copy takes the place of all
// names in the tree, and the cache stays.
// The walk reads a file once, by the first of its names; each name in the tree may be the one that is needed.
func TestRule6AnotherNameOfAFileIsALibrary(t *testing.T) {
	for first, second := range map[string]string{"a/real.so": "b/libfoo.so.1", "b/real.so": "a/libfoo.so.1"} {
		t.Run(second, func(t *testing.T) {
			s := newStage(t)
			s.put("out/"+first, lib("libfoo.so.1").Object)
			s.mkdir("out/" + path.Dir(second))
			if err := os.Link(s.dir+"/out/"+first, s.dir+"/out/"+second); err != nil {
				t.Fatal(err)
			}
			s.put("out/main", prog("libfoo.so.1", "libc.so.6").Object)
			r := s.resolve()
			if surprises := r.apply(); len(surprises) > 0 {
				t.Errorf("%+v", surprises)
			}
			r.list("out/main", "~/out/"+path.Dir(second))
			for _, p := range r.plans {
				if o := p.Object; o.SameAs != "" && (p.Changes() || p.Skip == "" || len(p.before) > 0) {
					t.Errorf("%s: %+v", o.Path, p)
				}
			}
		})
	}
}

func TestRule6HardLinks(t *testing.T) {
	s := newStage(t)
	link := func(old, new string) {
		t.Helper()
		s.mkdir(path.Dir(new))
		if err := os.Link(s.dir+"/"+old, s.dir+"/"+new); err != nil {
			t.Fatal(err)
		}
	}
	s.put("cache/main", prog("libc.so.6").Object)
	link("cache/main", "out/a/main")
	link("cache/main", "out/b/main")
	s.put("out/c/own", prog("libc.so.6").Object)
	link("out/c/own", "out/d/own")
	before, err := os.ReadFile(s.dir + "/cache/main")
	if err != nil {
		t.Fatal(err)
	}
	r := s.resolve()
	if o := r.plan("out/a/main").Object; o.links != 2 || o.LinkedOutside() != 1 || len(o.also) != 1 || o.also[0].Path != s.path("~/out/b/main") {
		t.Errorf("%d links, %d of them outside, and %+v", o.links, o.LinkedOutside(), o.also)
	}
	if o := r.plan("out/c/own").Object; o.LinkedOutside() != 0 {
		t.Errorf("%d links outside", o.LinkedOutside())
	}
	stopped, err := r.index.Change(t.Context(), r.plans, Changing{Carrying: Carrying{Jobs: 2}})
	if stopped != nil || err != nil {
		t.Fatal(stopped, err)
	}
	for _, p := range r.plans {
		if p.Err != nil || p.Result.Edited != p.Changes() {
			t.Errorf("%s: %v, %+v", p.Object.Path, p.Err, p.Result)
		}
	}
	if after, err := os.ReadFile(s.dir + "/cache/main"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the cache was changed (%v)", err)
	}
	r = s.resolve()
	for first, second := range map[string]string{"out/a/main": "out/b/main", "out/c/own": "out/d/own"} {
		if p := r.plan(first); p.Changes() || p.Object.Interp != s.path("~/glibc/lib/ld-linux-x86-64.so.2") || p.Object.LinkedOutside() != 0 {
			t.Errorf("%s: %+v", first, p.Object)
		}
		if o := r.plan(second).Object; o.SameAs != s.path("~/"+first) {
			t.Errorf("%s is no link to %s any more", second, first)
		}
	}
	if files, _ := filepath.Glob(s.dir + "/out/*/.*"); len(files) > 0 {
		t.Errorf("left: %q", files)
	}
}

// ---------------------------------------------------------------------- 7: what the loader would load

func TestRule7CandidatesThatCannotBeLoaded(t *testing.T) {
	for _, c := range []struct {
		name string
		lib  object
		why  string
	}{
		{"another class", lib("libfoo.so").with32bits(), "has the wrong ELF class: ELFCLASS32"},
		{"another machine", object{func() object { o := lib("libfoo.so"); o.Machine = elf.EM_AARCH64; return o }().Object}, ""},
		{"a version is missing", lib("libfoo.so").defines("FOO_1"), "lacks FOO_2"},
		{"another C library", lib("libfoo.so", "libc.musl-x86_64.so.1"), "was linked against musl, not glibc"},
		{"another OS ABI", object{func() object { o := lib("libfoo.so"); o.OSABI = elf.ELFOSABI_FREEBSD; return o }().Object}, "is for another OS ABI: ELFOSABI_FREEBSD"},
		{"a program", object{func() object { o := lib("libfoo.so"); o.Type, o.Interp = elf.ET_EXEC, "/ld.so"; return o }().Object}, "is a program, not a library"},
		{"a PIE", object{func() object { o := lib("libfoo.so"); o.Flags1, o.Interp = elf.DF_1_PIE, "/ld.so"; return o }().Object}, "is a program, not a library"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			s.put("bad/lib/libfoo.so", c.lib.Object)
			s.put("good/lib/libfoo.so", lib("libfoo.so").defines("FOO_1", "FOO_2").Object)
			main := prog("libfoo.so", "libc.so.6").requires("libfoo.so", "FOO_2")
			main.OSABI = elf.ELFOSABI_LINUX
			s.put("out/main", main.Object)
			s.libs("~/bad/lib", "~/good/lib")
			r := s.resolve()
			r.list("out/main", "~/good/lib")
			n := r.outcome("out/main", "libfoo.so", Found)
			if len(n.Rejected) != 1 || n.Rejected[0].Why == "" || c.why != "" && n.Rejected[0].Why != c.why {
				t.Errorf("rejected: %+v", n.Rejected)
			}
			s.src.Libs = nil
			s.libs("~/bad/lib")
			r = s.resolve()
			r.outcome("out/main", "libfoo.so", Missing)
			r.list("out/main", "")
		})
	}
}

func TestRule7WeakVersionsAndUnversionedLibraries(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").defines("FOO_1").Object)
	s.put("plain/lib/libplain.so", lib("libplain.so").Object)
	s.libs("~/foo/lib", "~/plain/lib")
	main := prog("libfoo.so", "libplain.so").requires("libfoo.so", "FOO_9").requires("libplain.so", "PLAIN_1")
	main.Requires[0].Weak = true
	s.put("out/main", main.Object)
	s.resolve().list("out/main", "~/foo/lib:~/plain/lib")
}

func TestRule7AnOwnCopyThatFailsFallsThrough(t *testing.T) {
	s := newStage(t)
	s.put("out/lib/libstdc++.so.6", lib("libstdc++.so.6").defines("GLIBCXX_3.4").Object)
	s.put("gcc/lib/libstdc++.so.6", lib("libstdc++.so.6").defines("GLIBCXX_3.4", "GLIBCXX_3.4.32").Object)
	s.put("out/lib/libx.so", lib("libx.so", "libstdc++.so.6").requires("libstdc++.so.6", "GLIBCXX_3.4.32").Object)
	s.libs("~/gcc/lib")
	r := s.resolve()
	r.list("out/lib/libx.so", "~/gcc/lib")
	want := []string{s.path("libstdc++.so.6: the package's own ~/out/lib/libstdc++.so.6 lacks GLIBCXX_3.4.32; ~/gcc/lib/libstdc++.so.6 is used instead")}
	if diff := cmp.Diff(want, r.plan("out/lib/libx.so").Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestRule7TheCLibraryMustHaveTheVersion(t *testing.T) {
	s := newStage(t)
	s.put("out/main", prog("libc.so.6").requires("libc.so.6", "GLIBC_2.99").Object)
	r := s.resolve()
	r.outcome("out/main", "libc.so.6", Missing)
	r.rejected("out/main", "libc.so.6", "~/"+libC, "lacks GLIBC_2.99")
}

// The loader takes the first file of the name that is for its machine, whatever versions
// it defines: so the order of the entries has to be right.
func TestRule7OrderInWhichTheLoaderTakesTheRightFile(t *testing.T) {
	s := newStage(t)
	s.put("old/lib/libbar.so", lib("libbar.so").Object)
	s.put("old/lib/libfoo.so", lib("libfoo.so").defines("FOO_1").Object)
	s.put("new/lib/libfoo.so", lib("libfoo.so").defines("FOO_1", "FOO_2").Object)
	s.libs("~/old/lib", "~/new/lib")
	s.put("out/main", prog("libbar.so", "libfoo.so").requires("libfoo.so", "FOO_2").Object)
	r := s.resolve()
	r.list("out/main", "~/new/lib:~/old/lib")
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

func TestRule7ACircleIsAnError(t *testing.T) {
	s := newStage(t)
	for _, d := range []string{"a", "b"} {
		other := map[string]string{"a": "b", "b": "a"}[d]
		s.put(d+"/lib/lib"+d+".so", lib("lib"+d+".so").defines("V1", "V2").Object)
		s.put(d+"/lib/lib"+other+".so", lib("lib"+other+".so").defines("V1").Object)
	}
	s.libs("~/a/lib", "~/b/lib")
	s.put("out/main", prog("liba.so", "libb.so").requires("liba.so", "V2").requires("libb.so", "V2").Object)
	p := s.resolve().plan("out/main")
	want := s.path("no order of its run path finds every library: ~/b/lib has to come before ~/a/lib for libb.so, and ~/a/lib has to come before ~/b/lib for liba.so")
	if p.Err == nil || p.Err.Error() != want || p.Changes() {
		t.Errorf("%v", p.Err)
	}
}

func TestRule7AnotherCLibraryInADirectoryOfTheList(t *testing.T) {
	s := newStage(t)
	s.put("old/lib/libfoo.so", lib("libfoo.so", "libc.so.6").Object)
	s.put("old/lib/libc.so.6", lib("libc.so.6").defines("GLIBC_2.2.5").Object)
	s.libs("~/old/lib")
	s.put("out/main", prog("libfoo.so", "libc.so.6").Object)
	r := s.resolve()
	r.list("out/main", "~/glibc/lib:~/old/lib")
	if w := r.plan("out/main").Warnings; len(w) != 1 || !strings.Contains(w[0], "holds another C library") {
		t.Errorf("%q", w)
	}
}

// --------------------------------------------------------------------------- 8: what is missing, and why

// In a build, too, a library may need a newer C library than there is.
func TestALibraryForANewerLibCInABuild(t *testing.T) {
	s := newStage(t)
	o := lib("new.so", "libc.so.6").Object
	o.Requires = []tinyelf.Requirement{{Library: "libc.so.6", Version: "GLIBC_2.99"}}
	s.put("out/new.so", o)
	r := s.resolve()
	all := r.resolver.Absences(r.plans, nil)
	if len(all) != 1 || !all[0].LibC || all[0].interpreter != "DIR/ld-linux-x86-64.so.2" {
		t.Errorf("%+v", all)
	}
}

func TestRule8Absences(t *testing.T) {
	s := newStage(t)
	s.put("cudart/lib/libcudart.so.12", lib("libcudart.so.12").Object)
	s.link("libcudart.so.12", "cudart/lib/libcudart.so")
	s.put("cudart/lib/stubs/libnvidia-ml.so", lib("libnvidia-ml.so.1").Object)
	s.put("out/lib/libown.so.2", lib("libown.so.2").Object)
	s.put("out/lib/libfull.so.1.2.3", lib("libfull.so.1").Object)
	s.put("out/lib/libfull32.so", lib("libfull.so.1").with32bits().Object)
	s.put("out/lib/plain.so", lib("libfull.so.1").Object)
	s.libs("~/cudart/lib", "~/cudart/lib/stubs")
	s.put("out/a", prog("libcudart.so.13", "libnvidia-ml.so.1", "libfull.so.1").Object)
	s.put("out/b", prog("libcudart.so.13", "libown.so.3").Object)
	note := lib("c.so")
	note.Dlopen = dlopenNote("recommended", "libx.so.1", "libx.so.2")
	s.put("out/c.so", note.Object)
	r := s.resolve()
	by := map[string]*Absence{}
	for _, a := range r.resolver.Absences(r.plans, nil) {
		by[a.Name] = a
	}
	if diff := cmp.Diff([]string{s.path("~/out/a"), s.path("~/out/b")}, by["libcudart.so.13"].NeededBy); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string][]string{
		"libcudart.so.13": {"~/cudart/lib/libcudart.so.12 is there, which is another version"},
		"libown.so.3":     {"~/out/lib/libown.so.2 is there, which is another version"},
		"libfull.so.1": {"~/out/lib/libfull.so.1.2.3 has the soname libfull.so.1, but the loader looks for a file of that name: a symbolic link beside it is missing",
			"~/out/lib/plain.so has the soname libfull.so.1, but the loader looks for a file of that name: a symbolic link beside it is missing"},
		"libnvidia-ml.so.1":         {"~/cudart/lib/stubs/libnvidia-ml.so is a stub, for linking only"},
		"any(libx.so.1, libx.so.2)": nil,
	} {
		for i := range want {
			want[i] = s.path(want[i])
		}
		if by[name] == nil {
			t.Errorf("%s is not missing", name)
		} else if diff := cmp.Diff(want, by[name].Reasons()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// Without a library of another version beside it, a package means its own CUDA set; by hand there is none.
	alone := &Absence{Name: "libcublas.so.12", Attributes: []string{"cudaPackages.libcublas"}}
	if a, b := alone.Remedy(Build).Whole(), alone.Remedy(Repair).Whole(); !strings.HasPrefix(a, "add cudaPackages.libcublas to buildInputs;") || !strings.Contains(b, "directory of cudaPackages_12.libcublas (nixpkgs);") {
		t.Errorf("%s\n%s", a, b)
	}
	// Where one is given that is too old, it is not asked for as if it were not there.
	old := &Absence{Name: "libstdc++.so.6", first: "libstdc++.so.6", Attributes: []string{"stdenv.cc.cc.lib"}, rejected: []Rejection{{Path: "/gcc/libstdc++.so.6", Why: "lacks GLIBCXX_3.4.31"}}}
	if a, b := old.Remedy(Build).Whole(), old.Remedy(Repair).Whole(); !strings.HasPrefix(a, "add a newer stdenv.cc.cc.lib to buildInputs;") || !strings.Contains(b, "directory of a newer stdenv.cc.cc.lib (nixpkgs);") {
		t.Errorf("%s\n%s", a, b)
	}
	old.Attributes = nil
	if a, b := old.Remedy(Build).Whole(), old.Remedy(Repair).Whole(); !strings.HasPrefix(a, "add the package that has a newer one to buildInputs,") || !strings.Contains(b, "DIR is the directory that has a newer one;") {
		t.Errorf("%s\n%s", a, b)
	}
	for name, want := range map[string][2]string{
		"libcudart.so.13": {`add cudaPackages_13.cuda_cudart to buildInputs; or autoPatchelfIgnoreMissingDeps = [ "libcudart.so.13" ] if it is not wanted`,
			"--libs DIR, where DIR is the lib directory of cudaPackages_13.cuda_cudart (nixpkgs); or --ignore-missing libcudart.so.13 if it is not wanted"},
		"libnvidia-ml.so.1": {`it comes with the host's GPU driver: add cudaRunpathHook to nativeBuildInputs, and do not set dontAutoAddDriverRunpath; or autoPatchelfIgnoreMissingDeps = [ "libnvidia-ml.so.1" ] if it is not wanted`,
			"it comes with the host's GPU driver: --tool autoAddDriverRunpath; or --ignore-missing libnvidia-ml.so.1 if it is not wanted"},
		"libown.so.3": {`add the package that has it to buildInputs, or its directory with addAutoPatchelfSearchPath; or autoPatchelfIgnoreMissingDeps = [ "libown.so.3" ] if it is not wanted`,
			"--libs DIR, where DIR is the directory that has it; or --ignore-missing libown.so.3 if it is not wanted"},
		"any(libx.so.1, libx.so.2)": {`add the package that has it to buildInputs, or its directory with addAutoPatchelfSearchPath; or --enforce-priority required if the file may do without it (its .note.dlopen says recommended); or autoPatchelfIgnoreMissingDeps = [ "libx.so.1" ] if it is not wanted`,
			"--libs DIR, where DIR is the directory that has it; or --enforce-priority required if the file may do without it (its .note.dlopen says recommended); or --ignore-missing libx.so.1 if it is not wanted"},
	} {
		if diff := cmp.Diff(want, [2]string{by[name].Remedy(Build).Whole(), by[name].Remedy(Repair).Whole()}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRule8OfManyVersionsSome(t *testing.T) {
	s := newStage(t)
	for _, v := range []string{"1", "2", "3", "4", "5", "6"} {
		s.put("foo/lib/libfoo.so."+v, lib("libfoo.so."+v).Object)
	}
	s.link("foo", "again") // the same files
	s.put("foo/lib/libbar.so", lib("libbar.so").defines("V1").Object)
	s.libs("~/foo/lib", "~/again/lib")
	s.put("out/main", prog("libfoo.so.9", "libbar.so").requires("libbar.so", "V2").Object)
	r := s.resolve()
	all := r.resolver.Absences(r.plans, nil)
	if len(all) != 2 || len(all[0].near) != maxNear {
		t.Errorf("%+v", all)
	}
	if n := r.outcome("out/main", "libbar.so", Missing); len(n.Rejected) != 1 {
		t.Errorf("one file is rejected as %+v", n.Rejected)
	}
}

func TestRule8EnforcePriority(t *testing.T) {
	for _, c := range []struct {
		priority string
		enforce  Priority
		want     Outcome
	}{
		{"suggested", Suggested, Missing}, {"suggested", Recommended, Optional}, {"recommended", Recommended, Missing},
		{"recommended", Required, Optional}, {"required", Required, Missing}, {"", Recommended, Missing}, {"", Required, Optional},
	} {
		s := newStageIn(t)
		o := lib("x.so")
		o.Dlopen = dlopenNote(c.priority, "libx.so.1")
		s.put("out/x.so", o.Object)
		s.set.EnforcePriority = c.enforce
		s.resolve().outcome("out/x.so", "libx.so.1", c.want)
	}
}

// --------------------------------------------------------------------------------------- 9: stubs, the driver

func TestRule9StubsAreNeverTaken(t *testing.T) {
	s := newStage(t)
	s.put("cudart/lib/stubs/libcuda.so.1", lib("libcuda.so.1").Object)
	s.put("cudart/lib/libcudart.so.12", lib("libcudart.so.12").with(elf.DT_RUNPATH, "~/cudart/lib/stubs").Object)
	s.put("out/stubs/libcuda.so.1", lib("libcuda.so.1").Object)
	s.put("out/main", prog("libcudart.so.12", "libcuda.so.1").Object)
	// A link of another name to a stub is a stub, wherever it is.
	s.put("cudart/lib/stubs/libcuda.so", lib("libcuda.so.1").Object)
	s.link("~/cudart/lib/stubs/libcuda.so", "links/libcuda.so.1")
	s.libs("~/cudart/lib", "~/cudart/lib/stubs", "~/links")
	r := s.resolve()
	r.outcome("out/main", "libcuda.so.1", Missing)
	r.rejected("out/main", "libcuda.so.1", "~/out/stubs/libcuda.so.1", "is a stub, for linking only")
	r.list("out/main", "~/cudart/lib")
}

func TestRule9TheDriversLibrariesComeByTheDriverLink(t *testing.T) {
	s := newStage(t)
	s.put("compat/lib/libcuda.so.1", lib("libcuda.so.1").Object)
	s.libs("~/compat/lib")
	s.put("out/main", prog("libcuda.so.1").Object)
	s.put("out/own/libnvidia-ml.so.1", lib("libnvidia-ml.so.1").Object)
	s.put("out/nvml", prog("libnvidia-ml.so.1").Object)
	s.resolve().outcome("out/main", "libcuda.so.1", Found)
	s.set.Driver = true
	r := s.resolve()
	r.outcome("out/main", "libcuda.so.1", ByDriver)
	r.list("out/main", "")
	r.outcome("out/nvml", "libnvidia-ml.so.1", Found) // the package's own
}

func TestRule9MapsAreAppliedAtTheEnd(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.libs("~/foo/lib")
	s.put("out/main", prog("libfoo.so").Object)
	s.put("out/alone.so", lib("alone.so").Object)
	s.set.Map = func(_ *Object, l runpath.List) runpath.List { return append(runpath.List{"/driver"}, l...) }
	r := s.resolve()
	r.list("out/main", "/driver:~/foo/lib")
	r.list("out/alone.so", "/driver")
	if p := r.plan("out/alone.so"); p.Set != nil || p.State().Tag != elf.DT_RUNPATH {
		t.Errorf("alone.so: set %v, %v", p.Set, p.State())
	}
}

// ------------------------------------------------------------------------- 10: C libraries and machines

func TestRule10MuslInATreeOfGlibc(t *testing.T) {
	s := newStage(t)
	s.put("out/a.node", lib("", "libc.musl-x86_64.so.1").Object)
	s.put("out/b.node", lib("", "libc.so").Object)
	main := prog()
	main.Interp = "/lib/ld-musl-x86_64.so.1"
	s.put("out/main", main.Object)
	r := s.resolve()
	for _, file := range []string{"out/a.node", "out/b.node", "out/main"} {
		r.skipped(file, "it was linked against musl, and the C library of the target is glibc", true)
	}
}

// Android's C library has musl's name.
func TestRule10AndroidInATreeOfGlibc(t *testing.T) {
	s := newStage(t)
	s.put("out/a.bare", lib("", "libm.so", "libc.so").requires("libc.so", "LIBC").Object)
	s.resolve().skipped("out/a.bare", "it was linked against Android's C library, and the C library of the target is glibc", true)
}

// musl's loader is its C library, under whatever name a distribution asks for it.
func TestRule10MuslsLoaderIsItsCLibrary(t *testing.T) {
	s := newStage(t)
	musl := object{tinyelf.Object{Data: "\x00musl libc (x86_64)\x00"}.With(elf.DT_SONAME, "ld-musl-x86_64.so.1")}
	s.put("musl/lib/ld-musl-x86_64.so.1", musl.Object)
	s.link("ld-musl-x86_64.so.1", "musl/lib/libc.so")
	s.put("foo/lib/libfoo.so", lib("libfoo.so", "libc.musl-x86_64.so.1").Object)
	s.put("foo/lib/libcap.so.2", lib("libcap.so.2").Object)
	s.libs("~/foo/lib")
	main := prog("libfoo.so", "libc.musl-x86_64.so.1", "libpthread.so.0", "libcap.so.2")
	main.Interp = "/lib/ld-musl-x86_64.so.1"
	s.put("out/main", main.Object)
	s.put("out/a.node", lib("", "libc.so").Object)
	s.set.Interpreters = []Interpreter{{Path: s.path("~/musl/lib/ld-musl-x86_64.so.1"), LibC: s.path("~/musl/lib")}}
	r := s.resolve()
	r.outcome("out/main", "libc.musl-x86_64.so.1", InLibC)
	r.outcome("out/main", "libpthread.so.0", InLibC)
	r.outcome("out/a.node", "libc.so", InLibC)
	r.list("out/main", "~/foo/lib")
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

func TestRule10EachMachineByItsInterpreter(t *testing.T) {
	s := newStage(t)
	if strings.ContainsFunc(s.dir, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Skip("a C library's own directories are read from its loader as printable ASCII")
	}
	loader32 := object{loaderOf(s.dir + "/glibc32/lib")}.with32bits()
	s.put("glibc32/lib/ld-linux.so.2", loader32.Object)
	s.put("glibc32/lib/libc.so.6", lib("libc.so.6").with32bits().Object)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.put("foo32/lib/libfoo.so", lib("libfoo.so").with32bits().Object)
	s.libs("~/foo32/lib", "~/foo/lib")
	s.put("out/main", prog("libfoo.so", "libc.so.6").Object)
	s.put("out/main32", prog("libfoo.so", "libc.so.6").with32bits().Object)
	s.set.Interpreters = append(s.set.Interpreters, Interpreter{Path: s.path("~/glibc32/lib/ld-linux.so.2")})
	r := s.resolve()
	r.list("out/main", "~/foo/lib")
	r.list("out/main32", "~/foo32/lib")
	if p := r.plan("out/main32"); p.Interpreter != s.path("~/glibc32/lib/ld-linux.so.2") {
		t.Errorf("interpreter %s", p.Interpreter)
	}
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

func TestInterpretersThatAreNone(t *testing.T) {
	s := newStage(t)
	s.raw("text", "hello\n")
	ix, err := Read(t.Context(), s.src)
	if err != nil {
		t.Fatal(err)
	}
	// What NixOS has at the loader's place.
	s.put("stub", tinyelf.Object{Type: elf.ET_EXEC, Data: "NixOS cannot run dynamically linked executables"})
	s.put("nix-ld", tinyelf.Object{Flags1: elf.DF_1_PIE, Data: "NIX_LD_LIBRARY_PATH"})
	s.put("static", tinyelf.Object{Type: elf.ET_EXEC})
	for p, want := range map[string]string{
		"text": "is not a dynamic loader", "nothing": "no such file", "stub": "is NixOS's stub-ld, which prints a message and starts nothing",
		"nix-ld": "is nix-ld, and the loader that it becomes, ", "static": "is a static program and no dynamic loader",
	} {
		if _, err := NewResolver(ix, Settings{Interpreters: []Interpreter{{Path: s.dir + "/" + p}}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// ----------------------------------------------------------------------------------------- 11: ignoring

func TestRule11Ignoring(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.put("foo/lib/libold.so", lib("libold.so").defines("V1").Object)
	s.libs("~/foo/lib")
	s.put("out/main", prog("libfoo.so", "libgone.so.1", "libold.so").requires("libold.so", "V2").Object)
	s.set.Ignore = []string{"libg[o]ne.so.*", "libold.so", "libfoo.so", "libnever.so", "libcuda.so.1"}
	r := s.resolve()
	if n := r.outcome("out/main", "libgone.so.1", Ignored); n.Pattern != "libg[o]ne.so.*" {
		t.Errorf("pattern %q", n.Pattern)
	}
	r.outcome("out/main", "libold.so", Ignored)
	r.rejected("out/main", "libold.so", "~/foo/lib/libold.so", "lacks V2")
	r.outcome("out/main", "libfoo.so", Found)
	want := []string{`the ignore pattern "libfoo.so" ignores nothing: libfoo.so is there`, `the ignore pattern "libnever.so" matches no library that is needed`}
	if diff := cmp.Diff(want, r.resolver.UnusedPatterns(r.plans)); diff != "" {
		t.Error(diff)
	}
	if a := r.resolver.Absences(r.plans, nil); len(a) > 0 {
		t.Errorf("missing: %+v", a)
	}
}

// ------------------------------------------------------------------------- 12: the loader does as planned

// driverFirst stands for what a map may put before the entries that were put in order.
func driverFirst(dir string) func(*Object, runpath.List) runpath.List {
	return func(_ *Object, l runpath.List) runpath.List { return append(runpath.List{dir}, l...) }
}

func TestRule12Programs(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.put("driver/libfoo.so", lib("libfoo.so").with(elf.DT_RUNPATH, "/other").Object)
	s.libs("~/foo/lib")
	s.put("out/main", prog("libfoo.so").Object)
	s.set.Map = driverFirst(s.path("~/driver"))
	got := s.resolve().apply()
	want := []surprise{{s.path("~/out/main"),
		s.path("libfoo.so is ~/driver/libfoo.so, found by DT_RUNPATH of main (entry ~/driver); the plan is ~/foo/lib/libfoo.so")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A plugin: no program of the tree loads it.
func TestRule12LibrariesThatNoProgramLoads(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.put("driver/libfoo.so", lib("libfoo.so").with(elf.DT_RUNPATH, "/other").Object)
	s.libs("~/foo/lib")
	s.put("out/plugin.so", lib("plugin.so", "libfoo.so", "libc.so.6").Object)
	s.src.Store = "/nowhere" // the driver's directory is not followed
	s.set.Map = driverFirst(s.path("~/driver"))
	got := s.resolve().apply()
	want := []surprise{{s.path("~/out/plugin.so"),
		s.path("libfoo.so is ~/driver/libfoo.so, found by DT_RUNPATH of plugin.so (entry ~/driver); the plan is ~/foo/lib/libfoo.so")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Also where it was so already: of plugins that are alike, each.
	s.put("out/plugin2.so", lib("plugin2.so", "libfoo.so", "libc.so.6").with(elf.DT_RUNPATH, "~/driver:~/foo/lib").Object)
	r := s.resolve()
	if r.plan("out/plugin.so").Changes() || r.plan("out/plugin2.so").Changes() {
		t.Fatal("is changed again")
	}
	want = append(want, surprise{s.path("~/out/plugin2.so"),
		s.path("libfoo.so is ~/driver/libfoo.so, found by DT_RUNPATH of plugin2.so (entry ~/driver); the plan is ~/foo/lib/libfoo.so")})
	if diff := cmp.Diff(want, r.apply()); diff != "" {
		t.Error(diff)
	}
}

// Of libraries that are edited alike each is looked at.
func TestRule12LibrariesThatAreAlike(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").defines("FOO_1", "FOO_2").Object)
	s.put("driver/libfoo.so", lib("libfoo.so").defines("FOO_1").Object)
	s.libs("~/foo/lib")
	for name, version := range map[string]string{"a.so": "FOO_2", "b.so": "FOO_2", "c.so": "FOO_1"} {
		s.put("out/"+name, lib(name, "libfoo.so").requires("libfoo.so", version).Object)
	}
	s.src.Store = "/nowhere"
	s.set.Map = driverFirst(s.path("~/driver"))
	files := map[string]bool{}
	for _, found := range s.resolve().apply() {
		if strings.Contains(found.Text, "FOO_2") {
			files[strings.TrimPrefix(found.File, s.dir+"/out/")] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"a.so": true, "b.so": true}, files); diff != "" {
		t.Error(diff)
	}
}

func TestRule12VersionsThatTheLoaderMisses(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").defines("FOO_1", "FOO_2").Object)
	s.put("driver/libfoo.so", lib("libfoo.so").defines("FOO_1").Object)
	s.libs("~/foo/lib")
	s.put("out/plugin.so", lib("plugin.so", "libfoo.so").requires("libfoo.so", "FOO_2").Object)
	s.src.Store = "/nowhere"
	s.set.Map = driverFirst(s.path("~/driver"))
	got := s.resolve().apply()
	if len(got) != 1 || !strings.HasPrefix(got[0].Text, s.path("libfoo.so is ~/driver/libfoo.so: ")) || !strings.Contains(got[0].Text, "FOO_2") {
		t.Errorf("%+v", got)
	}
}

// An interpreter that does not find the C library that was said to be its own.
func TestRule12TheCLibraryIsNotWhereTheLoaderLooks(t *testing.T) {
	s := newStage(t)
	s.put("moved/ld-linux-x86-64.so.2", loaderOf("/nowhere/lib"))
	s.set.Interpreters[0].Path = s.path("~/moved/ld-linux-x86-64.so.2")
	s.put("out/main", prog("libc.so.6").Object)
	want := []surprise{{s.path("~/out/main"), "libc.so.6 is not found; the plan leaves it to the loader's own directories"}}
	if diff := cmp.Diff(want, s.resolve().apply()); diff != "" {
		t.Error(diff)
	}
}

// By hand, a library's loader is a guess. Where there is none here, nobody knows what it finds.
func TestRule12NoAlarmWhereTheLoaderIsNotHere(t *testing.T) {
	s := newStage(t)
	o := lib("x.so", "libc.so.6")
	o.Machine = elf.EM_LOONGARCH
	s.put("out/x.so", o.Object)
	s.set.Interpreters = nil
	r := s.resolve()
	r.outcome("out/x.so", "libc.so.6", InLibC)
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

// What another library of the tree loads first is no alarm: two plugins may each have
// a copy of their own, as long as no program opens both.
func TestRule12NoAlarmForWhatOthersLoad(t *testing.T) {
	s := newStage(t)
	for _, d := range []string{"a", "b"} {
		s.put("out/"+d+"/libfoo.so", lib("libfoo.so").with(elf.DT_RUNPATH, "/"+d).Object)
		s.put("out/"+d+"/plugin.so", lib("plugin.so", "libfoo.so").Object)
	}
	s.put("out/c.so", lib("c.so", "libfoo.so", "plugin.so").Object)
	r := s.resolve()
	r.list("out/b/plugin.so", "~/out/b")
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

// Of a library that is looked at by itself only its own needs are, not those of what it needs.
func TestRule12NoAlarmForTheNeedsOfNeeds(t *testing.T) {
	s := newStage(t)
	s.put("deep/lib/libdeep.so", lib("libdeep.so").defines("DEEP_1").Object)
	s.put("mid/lib/libmid.so", lib("libmid.so", "libdeep.so").requires("libdeep.so", "DEEP_1").with(elf.DT_RUNPATH, "~/deep/lib").Object)
	s.libs("~/mid/lib")
	// Versions may be asked of a library that only another one names.
	s.put("out/plugin.so", lib("plugin.so", "libmid.so").requires("libdeep.so", "DEEP_1").Object)
	s.put("out/plain.so", lib("plain.so", "libmid.so").Object)
	if surprises := s.resolve().apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

// A library for better processors in a directory of the loader's below the one that was
// chosen is the same library to the plan.
func TestRule12HardwareDirectories(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	for _, sub := range []string{"x86-64-v2", "x86-64-v3", "x86-64-v4"} {
		s.put("foo/lib/glibc-hwcaps/"+sub+"/libfoo.so", lib("libfoo.so").with(elf.DT_RUNPATH, "/"+sub).Object)
	}
	s.libs("~/foo/lib")
	s.put("out/main", prog("libfoo.so").Object)
	s.put("out/plugin.so", lib("plugin.so", "libfoo.so").Object)
	if surprises := s.resolve().apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
	for p, want := range map[string]bool{
		"/d/glibc-hwcaps/x86-64-v3/libfoo.so": true, "/d/tls/haswell/libfoo.so": true, "/d/sub/libfoo.so": false,
		"/d/sse2/libfoo.so": true, "/d/i586/libfoo.so": true, "/d/atomics/libfoo.so": true,
		"/d/libfoo.so": false, "/d/glibc-hwcaps/x/libbar.so": false, "/e/glibc-hwcaps/x/libfoo.so": false,
	} {
		if variant(p, "/d/libfoo.so") != want {
			t.Errorf("%s", p)
		}
	}
}

// ------------------------------------------------------------------------ 13: the run paths of inputs

func TestRule13RunPathsOfInputs(t *testing.T) {
	s := newStage(t)
	s.put("deep/lib/libdeep.so", lib("libdeep.so").Object)
	s.put("mid/lib/libmid.so", lib("libmid.so").with(elf.DT_RUNPATH, "~/deep/lib").Object)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").with(elf.DT_RPATH, "$ORIGIN/../../origin/lib:~/mid/lib").Object)
	s.put("origin/lib/liborigin.so", lib("liborigin.so").Object)
	s.put("own/lib/libown.so", lib("libown.so").Object)
	s.libs("~/foo/lib")
	s.put("out/main", prog("libfoo.so", "libdeep.so", "libmid.so", "liborigin.so", "libown.so").with(elf.DT_RUNPATH, "~/own/lib").Object)
	r := s.resolve()
	r.list("out/main", "~/foo/lib:~/deep/lib:~/mid/lib:~/own/lib")
	r.outcome("out/main", "liborigin.so", Missing)

	s.src.Store = s.dir + "/another"
	r = s.resolve()
	r.list("out/main", "~/foo/lib")
	r.outcome("out/main", "libmid.so", Missing)
}

// Also of what the run paths of the tree's own libraries lead to.
func TestRule13RunPathsOfWhatTheTreeNames(t *testing.T) {
	s := newStage(t)
	s.put("deep/lib/libdeep.so", lib("libdeep.so").Object)
	s.put("own/lib/libown.so", lib("libown.so").with(elf.DT_RUNPATH, "~/deep/lib").Object)
	s.put("out/libx.so", lib("libx.so", "libown.so", "libdeep.so").with(elf.DT_RUNPATH, "~/own/lib").Object)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.libs("~/foo/lib")
	s.resolve().list("out/libx.so", "~/own/lib:~/deep/lib")
}

// The nearest wins: the inputs themselves, then what their run paths name, then the tree's programs'.
func TestRule13NearestFirst(t *testing.T) {
	s := newStage(t)
	for _, d := range []string{"foo", "mid", "own", "libs"} {
		s.put(d+"/lib/libx.so", lib("libx.so").Object)
	}
	s.put("foo/lib/libfoo.so", lib("libfoo.so").with(elf.DT_RUNPATH, "~/mid/lib").Object)
	s.put("mid/lib/liby.so", lib("liby.so").Object)
	s.put("own/lib/liby.so", lib("liby.so").Object)
	s.put("out/libself.so", lib("libself.so").with(elf.DT_RUNPATH, "~/libs/lib").Object)
	s.libs("~/foo/lib")
	s.put("out/main", prog("libx.so", "liby.so").with(elf.DT_RUNPATH, "~/own/lib").Object)
	// libself.so's run path is of the tree, and comes before the inputs.
	s.resolve().list("out/main", "~/libs/lib:~/mid/lib")
}

// ---------------------------------------------------------------------------------------- by flag

func TestPreserveOrigin(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.put("out/lib/libown.so", lib("libown.so").Object)
	s.libs("~/foo/lib")
	s.put("out/bin/main", prog("libown.so", "libfoo.so").with(elf.DT_RUNPATH, "${ORIGIN}/../lib/:$ORIGIN/plugins:/opt/x").Object)
	s.set.Mode = BuildOrigins
	s.resolve().list("out/bin/main", "${ORIGIN}/../lib:~/foo/lib:$ORIGIN/plugins")
	s.set.Mode = Build
	s.resolve().list("out/bin/main", "~/out/lib:~/foo/lib")
}

func TestKeepEntries(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.mkdir("plugins")
	s.mkdir("cuda/stubs")
	s.libs("~/foo/lib")
	s.put("out/main", prog("libfoo.so").with(elf.DT_RUNPATH, driver.Link+":~/plugins/:/gone::~/cuda/stubs:$LIB/x").Object)
	s.put("out/alone.so", lib("alone.so").with(elf.DT_RUNPATH, "/gone").Object)
	s.put("out/driver.so", lib("driver.so", "libfoo.so").with(elf.DT_RUNPATH, "~/plugins:"+driver.Link).Object)
	s.set.Mode = Repair
	r := s.resolve()
	r.list("out/main", driver.Link+":~/plugins/:$LIB/x:~/foo/lib")
	if diff := cmp.Diff([]string{"/gone", s.path("~/cuda/stubs")}, r.plan("out/main").Lost); diff != "" {
		t.Error(diff)
	}
	r.list("out/driver.so", "~/plugins:"+driver.Link+":~/foo/lib")
	// Nothing is missing, and nothing asked for.
	r.list("out/alone.so", "/gone")
	if r.plan("out/alone.so").Changes() {
		t.Error("alone.so is changed")
	}
}

func TestRelativize(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.put("out/lib/libown.so", lib("libown.so").Object)
	s.put("out/bin/libbeside.so", lib("libbeside.so").Object)
	s.libs("~/foo/lib")
	s.put("out/bin/main", prog("libown.so", "libfoo.so", "libbeside.so").Object)
	s.set.Relativize = true
	r := s.resolve()
	r.list("out/bin/main", "$ORIGIN/../lib:~/foo/lib:$ORIGIN")
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

func TestDlopen(t *testing.T) {
	s := newStage(t)
	s.put("nvrtc/lib/libnvrtc.so.12", lib("libnvrtc.so.12").Object)
	s.put("cudart/lib/libcudart.so.12", lib("libcudart.so.12").Object)
	s.libs("~/nvrtc/lib", "~/cudart/lib")
	o := lib("x.so")
	o.Data = "\x00libnvrtc.so.12\x00libcublasLt.so.12\x00libplain.so.1\x00libnvrtc.so.12\x00opening libcudart.so.12: failed\x00"
	s.put("out/x.so", o.Object)
	s.src.Literals = forNames(driver.NeedsDriver)
	r := s.resolve()
	r.list("out/x.so", "")
	s.set.Dlopen = true
	r = s.resolve()
	r.list("out/x.so", "~/nvrtc/lib:~/cudart/lib")
	r.outcome("out/x.so", "libcublasLt.so.12", Optional)
	r.outcome("out/x.so", "libcudart.so.1", Optional) // the 2 may belong to the next string
	if len(r.plan("out/x.so").Object.literals) != 4 || len(r.plan("out/x.so").Needs) != 4 {
		t.Errorf("needs %v", r.plan("out/x.so").Needs)
	}
	s.put("out/x.so", o.Needs("libnvrtc.so.12")) // which it then needs for certain, once
	if p := s.resolve().plan("out/x.so"); len(p.Needs) != 4 || p.Needs[0].priority != Required {
		t.Errorf("needs %v", p.Needs)
	}
}

// In a build, a CUDA library's own parts stay findable, before another's, also where nothing was asked for.
func TestALibrarysOwnParts(t *testing.T) {
	s := newStage(t)
	for _, dir := range []string{"out/lib", "foo/lib", "out/other"} {
		s.put(dir+"/libcudnn_ops.so.9", lib("libcudnn_ops.so.9").Object)
	}
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.libs("~/foo/lib")
	o := lib("libcudnn.so.9", "libfoo.so").with(elf.DT_RUNPATH, "$ORIGIN")
	o.Data = "\x00libcudnn_ops.so\x00libcudnn.so\x00"
	s.put("out/lib/libcudnn.so.9", o.Object)
	s.put("out/other/libcudnn.so.9", lib("libcudnn.so.9", "libfoo.so").with(elf.DT_RUNPATH, "$ORIGIN").Object) // names no part
	s.src.Literals = func(o *Object) func(string) bool {
		if opensItsParts(o) {
			return driver.Toolkit
		}
		return nil
	}
	r := s.resolve()
	r.list("out/lib/libcudnn.so.9", "~/out/lib:~/foo/lib")
	r.list("out/other/libcudnn.so.9", "~/foo/lib")
	s.set.Relativize = true
	s.resolve().list("out/lib/libcudnn.so.9", "$ORIGIN:~/foo/lib")
	s.set.Relativize, s.set.Mode = false, BuildOrigins
	s.resolve().list("out/lib/libcudnn.so.9", "$ORIGIN:~/foo/lib")
	s.src.WithoutTree = true // nothing of the tree is to be found
	s.set.Mode = Build
	s.resolve().list("out/lib/libcudnn.so.9", "~/foo/lib")
}

func TestMinimal(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.put("foo/lib/libbar.so", lib("libbar.so").Object)
	s.put("foo32/lib/libfoo.so", lib("libfoo.so").with32bits().Object)
	s.mkdir("unused/lib")
	s.libs("~/foo/lib")
	s.put("out/main", prog("libfoo.so").with(elf.DT_RUNPATH, "$ORIGIN/x:~/unused/lib:~/foo32/lib").Object)
	s.set.Mode, s.set.Minimal = Repair, true
	s.set.RuntimeDependencies, s.set.AppendRunpaths = []string{"/late"}, []string{"/appended"}
	r := s.resolve()
	r.list("out/main", "/late:$ORIGIN/x:~/foo/lib:/appended")
	if diff := cmp.Diff([]string{s.path("~/unused/lib"), s.path("~/foo32/lib")}, r.plan("out/main").Dropped); diff != "" {
		t.Error(diff)
	}
}

// A library that is named by a symbolic link is found by the link's name, in the link's directory.
func TestALibraryNamedByItsLink(t *testing.T) {
	s := newStage(t)
	s.put("real/libfoo.so.1.2", lib("libfoo.so.1").Object)
	s.link("../real/libfoo.so.1.2", "links/libfoo.so.1")
	s.put("links/libbar.so", lib("libbar.so").Object)
	s.put("out/main", prog("libfoo.so.1", "libbar.so").Object)
	s.libs("~/links/libfoo.so.1")
	r := s.resolve()
	r.list("out/main", "~/links")
	r.outcome("out/main", "libbar.so", Missing)
}

// By hand, what nobody asked to change keeps its spelling; with --paths it is nixpkgs'.
func TestKeptEntriesKeepTheirSpelling(t *testing.T) {
	s := newStage(t)
	s.put("foo/lib/libfoo.so", lib("libfoo.so").Object)
	s.put("out/libown.so", lib("libown.so").Object)
	s.mkdir("other")
	s.libs("~/foo/lib")
	s.put("out/main", prog("libown.so", "libfoo.so").with(elf.DT_RUNPATH, "$ORIGIN/:~/foo//lib/:~/./other").Object)
	s.set.Interpreters = nil
	s.set.Mode = Repair
	r := s.resolve()
	r.list("out/main", "$ORIGIN/:~/foo//lib/:~/./other")
	if r.plan("out/main").Changes() {
		t.Error("is changed for its spelling")
	}
	s.set.Mode = BuildOrigins
	s.resolve().list("out/main", "$ORIGIN:~/foo/lib")
}

// By hand, entries of the file's own stay that hold what it opens by name, also where its
// strings are kept side by side.
func TestMinimalKeepsWhatIsOpenedByName(t *testing.T) {
	s := newStage(t)
	for _, name := range []string{"exact", "rust", "unused"} {
		s.put(name+"/lib"+name+".so.1", lib("lib"+name+".so.1").Object)
	}
	o := prog().with(elf.DT_RUNPATH, "~/exact:~/rust:~/unused").Object
	o.Data = "\x00libexact.so.1\x00open librust.so.17 of them\x00"
	s.put("out/main", o)
	s.set.Mode, s.set.Minimal = Repair, true
	s.src.Literals = forNames(func(string) bool { return true })
	s.resolve().list("out/main", "~/exact:~/rust")
}

func TestTemporaryDirectories(t *testing.T) {
	s := newStage(t)
	s.put("build/lib/libfoo.so", lib("libfoo.so").Object)
	s.put("buildlib/libbar.so", lib("libbar.so").Object)
	s.libs("~/build/lib", "~/buildlib")
	s.put("out/foo", prog("libfoo.so").Object)
	s.put("out/bar", prog("libbar.so").Object)
	s.put("out/left.so", lib("left.so").with(elf.DT_RUNPATH, "~/build//x").Object)
	s.put("build/tool", prog("libfoo.so").Object)
	s.src.Paths = append(s.src.Paths, s.path("~/build"))
	s.set.Temporary = []string{s.path("~/build/")}
	r := s.resolve()
	for _, file := range []string{"out/foo", "out/left.so"} {
		if p := r.plan(file); p.Err == nil || !strings.Contains(p.Err.Error(), "in a build directory") || p.Changes() {
			t.Errorf("%s: %v", file, p.Err)
		}
	}
	r.list("out/bar", "~/buildlib")
	r.list("build/tool", "~/build/lib") // a tool of the build's own
}

// ------------------------------------------------------- where no interpreter is asked for: by hand

// byHand sets what the command line sets without --paths.
func (s *stage) byHand() {
	s.set.Interpreters = nil
	s.set.Mode, s.set.Relativize = Repair, true
}

// onStage is a program whose loader is the stage's.
func onStage(needed ...string) object {
	o := prog(needed...)
	o.Interp = "~/glibc/lib/ld-linux-x86-64.so.2"
	return o
}

func TestByHandWhatTheHostHasCountsAsFound(t *testing.T) {
	s := newStage(t)
	s.put("glibc/lib/libz.so.1", lib("libz.so.1").Object)
	s.put("foo/lib/libz.so.1", lib("libz.so.1").Object)
	s.put("out/main", onStage("libz.so.1", "libgone.so").Object)
	s.byHand()
	r := s.resolve()
	if n := r.outcome("out/main", "libz.so.1", BySystem); n.where != s.path("~/glibc/lib/libz.so.1") {
		t.Errorf("where: %q", n.where)
	}
	r.outcome("out/main", "libgone.so", Missing)
	if p := r.plan("out/main"); p.Interpreter != "" || p.Changes() {
		t.Errorf("%+v", p.State())
	}
	s.libs("~/foo/lib") // what is found stays
	s.resolve().list("out/main", "")
	s.set.Mode = Replace // what was asked for comes first
	s.resolve().list("out/main", "~/foo/lib")
}

// What programs of the tree load, or have a DT_RPATH for, is found; nothing is edited for it.
func TestByHandWhatProgramsOfTheTreeLoad(t *testing.T) {
	s := newStage(t)
	s.put("out/lib/libinner.so", lib("libinner.so").Object)
	s.put("out/lib/libouter.so", lib("libouter.so", "libinner.so").Object)
	s.put("out/lib/liblater.so", lib("liblater.so", "libouter.so").Object)
	s.put("out/plugins/plugin.so", lib("plugin.so", "libinner.so").Object)
	s.put("out/lib/alone.so", lib("alone.so", "libgone.so").Object)
	s.put("out/main", onStage("libouter.so").with(elf.DT_RPATH, "$ORIGIN/lib").opens("libouter.so").Object)
	s.byHand()
	r := s.resolve()
	for _, p := range r.plans {
		if p.Changes() || p.Err != nil {
			t.Errorf("%s: %v, %v", p.Object.Path, p.State(), p.Err)
		}
	}
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
	// With a tool it stays a DT_RPATH. What gets a DT_RUNPATH by that gets what it inherited too, unless the program has
	// loaded that.
	s.set.Map = func(_ *Object, l runpath.List) runpath.List {
		return append(runpath.List{"/driver"}, l.Without("/driver")...)
	}
	r = s.resolve()
	r.list("out/lib/libouter.so", "/driver:$ORIGIN")
	r.list("out/plugins/plugin.so", "/driver")
	if p := r.plan("out/main"); p.State().Tag != elf.DT_RPATH {
		t.Errorf("%v", p.State())
	}
	// What has a DT_RUNPATH now inherits nothing, and finds what the program has loaded all the same: a second run writes nothing.
	s.put("again/lib/libinner.so", lib("libinner.so").Object)
	s.put("again/plugins/plugin.so", lib("plugin.so", "libinner.so").with(elf.DT_RUNPATH, "/driver").Object)
	s.put("again/main", onStage("libinner.so").with(elf.DT_RPATH, "/driver:$ORIGIN/lib").opens("libinner.so").Object)
	paths := s.src.Paths
	s.src.Paths = []string{s.path("~/again")}
	s.resolve().list("again/plugins/plugin.so", "/driver")
	s.src.Paths = paths
	// Unless it is told to be a DT_RUNPATH: then those get the entry that inherited it.
	s.set.Tag = elf.DT_RUNPATH
	r = s.resolve()
	r.list("out/lib/libouter.so", "/driver:$ORIGIN")
	r.list("out/plugins/plugin.so", "/driver:$ORIGIN/../lib")
	if p := r.plan("out/main"); p.State().Tag != elf.DT_RUNPATH {
		t.Errorf("%v", p.State())
	}
	s.set.Tag = elf.DT_NULL
	// What a program has in a DT_RPATH that opens nothing is nothing to plugins.
	s.put("out/main", onStage("libouter.so").with(elf.DT_RPATH, "$ORIGIN/lib").Object)
	s.set.Map = nil
	s.resolve().list("out/plugins/plugin.so", "$ORIGIN/../lib")
	// Where one program does not load it so, it is missing.
	s.put("out/second", onStage("libouter.so").with(elf.DT_RUNPATH, "$ORIGIN/lib").Object)
	s.resolve().list("out/lib/libouter.so", "$ORIGIN")
}

// A plugin that gets a DT_RUNPATH for something else gets what it inherited too, and the program is left alone.
func TestByHandAPluginThatInheritsAndLacks(t *testing.T) {
	s := newStage(t)
	s.put("out/lib/libinner.so", lib("libinner.so").Object)
	s.put("out/lib/libouter.so", lib("libouter.so").Object)
	s.put("out/plugins/plugin.so", lib("plugin.so", "libinner.so", "libfar.so").Object)
	s.put("out/main", onStage("libouter.so").with(elf.DT_RPATH, "$ORIGIN/lib").opens("libouter.so").Object)
	s.put("libs/libfar.so", lib("libfar.so").Object)
	s.libs("~/libs")
	s.byHand()
	r := s.resolve()
	r.list("out/plugins/plugin.so", "~/libs:$ORIGIN/../lib")
	if p := r.plan("out/plugins/plugin.so"); p.State().Tag != elf.DT_RUNPATH || r.plan("out/main").Changes() {
		t.Errorf("%v", p.State())
	}
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

// By hand a stub directory stays with which alone a file starts; what is found elsewhere needs none.
func TestByHandAStubDirectoryThatIsNeeded(t *testing.T) {
	s := newStage(t)
	s.put("sdk/stubs/libstub.so", lib("libstub.so").Object)
	s.put("libs/libfar.so", lib("libfar.so").Object)
	for _, name := range []string{"out/starts", "out/dead"} {
		needs := []string{"libfar.so"}
		if name == "out/starts" {
			needs = append(needs, "libstub.so")
		}
		s.put(name, onStage(needs...).with(elf.DT_RUNPATH, "~/sdk/stubs:~/out").Object)
	}
	s.libs("~/libs")
	s.byHand()
	r := s.resolve()
	r.list("out/starts", "~/sdk/stubs:~/out:~/libs")
	r.list("out/dead", "~/out:~/libs")
	if p := r.plan("out/dead"); len(p.Lost) != 1 || p.Lost[0] != s.path("~/sdk/stubs") {
		t.Errorf("%q", p.Lost)
	}
}

// A program whose DT_RPATH its libraries inherit may get another run path because it was asked for: those get the entry then.
func TestALibraryThatWouldInheritNoMore(t *testing.T) {
	for name, ask := range map[string]func(*stage){
		"an entry before it hides what they find": func(s *stage) { s.byHand(); s.set.RuntimeDependencies = []string{s.path("~/old/lib")} },
		"it becomes a DT_RUNPATH": func(s *stage) {
			s.set.Interpreters, s.src.Store = nil, "/none"
			s.libs("~/other/lib")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.put("deps/lib/libinner.so", lib("libinner.so").defines("V_1", "V_2").Object)
			s.put("old/lib/libinner.so", lib("libinner.so").defines("V_1").Object)
			s.put("other/lib/libother.so", lib("libother.so").Object)
			s.put("out/lib/libouter.so", lib("libouter.so", "libinner.so").requires("libinner.so", "V_2").Object)
			s.put("out/main", onStage("libouter.so", "libother.so").with(elf.DT_RPATH, "$ORIGIN/lib:~/deps/lib:~/other/lib").Object)
			ask(s)
			r := s.resolve()
			r.list("out/lib/libouter.so", "~/deps/lib")
			if surprises := r.apply(); len(surprises) > 0 {
				t.Errorf("%+v", surprises)
			}
		})
	}
}

// A library outside the tree that a run newly leads to, and that cannot be loaded for what it needs, is told once.
func TestByHandALibraryThatLacksLibraries(t *testing.T) {
	s := newStage(t)
	s.put("libs/libfoo.so", lib("libfoo.so", "libgone.so", "libbeside.so", "libcuda.so.1", "libc.so.6").Object)
	s.put("libs/libwhole.so", lib("libwhole.so", "libinner.so", "libc.so.6").with(elf.DT_RUNPATH, "$ORIGIN/inner").Object)
	s.put("libs/inner/libinner.so", lib("libinner.so").Object)
	s.put("glibc/lib/libhost.so", lib("libhost.so", "libnone.so").Object)
	s.put("more/libbeside.so", lib("libbeside.so").Object)
	s.libs("~/libs", "~/more")
	s.put("out/a", onStage("libfoo.so", "libwhole.so", "libhost.so", "libbeside.so").Object)
	s.put("out/b", onStage("libfoo.so").Object)
	s.byHand()
	told := func(want ...string) {
		t.Helper()
		r := s.resolve()
		var got []string
		for _, p := range r.plans {
			got = append(got, p.Warnings...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		r.apply()
	}
	// That the tree finds libbeside.so elsewhere is no help to b.
	lacks := s.path("libfoo.so was found, but itself lacks libgone.so, libbeside.so: runpath explain ~/libs/libfoo.so")
	told(lacks)
	told(lacks) // also where nothing is to be done
	// A library of the tree is not one from elsewhere, nor is what the loader has there by itself.
	s.put("out/own/libk.so", lib("libk.so", "libnever.so").Object)
	s.put("out/c", onStage("libk.so").with(elf.DT_RUNPATH, "/gone:$ORIGIN/own").Object)
	s.set.Minimal = true
	told(lacks)
	s.set.Minimal = false
	s.set.Ignore = []string{"libgone.so", "libbeside.so"}
	told()
	s.set.Ignore = nil
	r := s.resolve()
	if all := r.resolver.Absences(r.plans, nil); len(all) != 3 || all[1].Name != "libgone.so" || all[2].Remedy(Repair).Whole() != s.path("autoPatchelf --libs ~/more ~/libs/libfoo.so; or --ignore-missing libbeside.so if it is not wanted") {
		t.Errorf("%+v", all)
	}
	s.set.Mode = Build // in a build that is another package's affair
	if all := r.resolver.Absences(r.plans, nil); len(all) != 3 {
		t.Errorf("%+v", all)
	}
}

func TestByHandFilesForOtherMachines(t *testing.T) {
	s := newStage(t)
	s.put("out/main", prog("libc.so.6").Object)
	main32 := prog("libc.so.6").with32bits()
	main32.Interp = "~/gone/ld-linux.so.2"
	s.put("out/main32", main32.Object)
	other := lib("x.so", "libstdc++.so.6")
	other.Machine = elf.EM_AARCH64
	s.put("out/arm.so", other.Object)
	s.byHand()
	s.set.Machines = []elf.Machine{elf.EM_X86_64, elf.EM_386}
	r := s.resolve()
	r.skipped("out/arm.so", "its architecture (AARCH64, 64 bits) is not this machine's", false)
	r.outcome("out/main", "libc.so.6", InLibC)
	r.outcome("out/main32", "libc.so.6", InLibC)
	s.set.Machines = nil
	s.resolve().outcome("out/arm.so", "libstdc++.so.6", Missing)
}

// A program keeps its interpreter, and so the C library that this one finds; where it
// finds none, the one beside it.
func TestByHandTheInterpretersOwnCLibrary(t *testing.T) {
	s := newStage(t)
	s.put("moved/lib/ld-linux-x86-64.so.2", loaderOf("/nowhere/lib"))
	s.put("moved/lib/libc.so.6", lib("libc.so.6").defines("GLIBC_2.2.5").Object)
	s.put("empty/lib/ld-linux-x86-64.so.2", loaderOf("/nowhere/lib"))
	with := func(interp string) object {
		o := prog("libc.so.6").requires("libc.so.6", "GLIBC_2.2.5")
		o.Interp = interp
		return o
	}
	s.put("out/moved", with("~/moved/lib/ld-linux-x86-64.so.2").Object)
	s.put("out/empty", with("~/empty/lib/ld-linux-x86-64.so.2").Object)
	s.put("out/right", with("~/glibc/lib/ld-linux-x86-64.so.2").Object)
	s.put("out/elsewhere", with("/nowhere/ld-linux-x86-64.so.2").Object)
	s.put("out/new", with("~/moved/lib/ld-linux-x86-64.so.2").requires("libc.so.6", "GLIBC_2.99").Object)
	s.put("out/x.so", lib("x.so", "libc.so.6").Object)
	s.byHand()
	r := s.resolve()
	r.list("out/moved", "~/moved/lib")
	r.list("out/right", "")
	r.outcome("out/right", "libc.so.6", InLibC)
	r.outcome("out/elsewhere", "libc.so.6", InLibC) // where it runs it has one
	r.outcome("out/x.so", "libc.so.6", InLibC)
	r.outcome("out/empty", "libc.so.6", Missing)
	r.outcome("out/new", "libc.so.6", Missing)
	r.rejected("out/new", "libc.so.6", "~/moved/lib/libc.so.6", "lacks GLIBC_2.99")
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

// A program that keeps an interpreter which is not here does not start, whatever it finds; a library has none.
func TestProgramsWithoutALoader(t *testing.T) {
	s := newStage(t)
	byHand := s.set
	byHand.Interpreters, byHand.Mode = nil, Repair
	for name, interp := range map[string]string{"gone": "/none/ld-linux-x86-64.so.2", "here": "~/glibc/lib/ld-linux-x86-64.so.2"} {
		p := prog("libc.so.6")
		p.Interp = interp
		s.put("out/"+name, p.Object)
	}
	s.put("out/lib.so", lib("lib.so").Object)
	for _, c := range []struct {
		Settings
		want map[string]string
	}{
		{byHand, map[string]string{"gone": "does not exist"}},
		{s.set, nil}, // all get the one that is named
	} {
		s.set = c.Settings
		r := s.resolve()
		for _, name := range []string{"gone", "here", "lib.so"} {
			if got := r.plan("out/" + name).NoLoader; got != c.want[name] {
				t.Errorf("%s: %q, want %q", name, got, c.want[name])
			}
		}
	}
}

// What is for a C library whose loader is not here is loaded by nothing, and was "unchanged".
func TestByHandATreeForAnotherCLibrary(t *testing.T) {
	s := newStage(t)
	o := lib("x.node", "libc.musl-aarch64.so.1", "libgone.so").Object
	o.Machine = elf.EM_AARCH64
	s.put("out/x.node", o)
	s.byHand()
	if p := s.resolve().plan("out/x.node"); p.OtherLibC != Musl {
		t.Errorf("%q", p.Skip)
	}
	// So it is with a library for the same in --libs: Alpine's user names one of Nix's store.
	s.put("libs/libgone.so", o)
	s.src.Libs = []string{s.dir + "/libs"}
	if p := s.resolve().plan("out/x.node"); p.OtherLibC != UnknownLibC {
		t.Errorf("with --libs: %q", p.Skip)
	}
	s.src.Libs = nil
	// With a program whose loader is here it is another matter.
	ld := loaderOf(s.dir + "/musl")
	ld.Machine = elf.EM_AARCH64
	s.put("musl/ld-musl-aarch64.so.1", ld)
	main := prog("libc.musl-aarch64.so.1").Object
	main.Machine, main.Interp = elf.EM_AARCH64, "~/musl/ld-musl-aarch64.so.1"
	s.put("out/main", main)
	if p := s.resolve().plan("out/x.node"); p.OtherLibC != UnknownLibC {
		t.Errorf("%q", p.Skip)
	}
}

// By hand, what is for another operating system is left alone, as what is for another machine.
func TestOtherSystemsByHand(t *testing.T) {
	s := newStage(t)
	for name, osabi := range map[string]elf.OSABI{"free": elf.ELFOSABI_FREEBSD, "linux": elf.ELFOSABI_LINUX, "none": elf.ELFOSABI_NONE} {
		p := prog("libc.so.7").Object
		p.OSABI = osabi
		s.put("out/"+name, p)
	}
	s.byHand()
	r := s.resolve()
	for name, want := range map[string]string{"free": "its OS ABI (ELFOSABI_FREEBSD) is not Linux's", "linux": "", "none": ""} {
		if got := r.plan("out/" + name).Skip; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
