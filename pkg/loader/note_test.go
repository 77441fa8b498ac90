package loader

import (
	"bytes"
	"debug/elf"
	"os"
	"strings"
	"testing"

	"cuda-runpath/pkg/resolution"
	"cuda-runpath/tests/tinyelf"
)

// noted is an object with a resolution note: name, places, name, places …
func (s *stage) noted(o tinyelf.Object, pairs ...string) tinyelf.Object {
	for _, text := range pairs {
		o.Resolution += s.path(text) + "\x00"
	}
	o.Resolution += "\x00"
	return o
}

// noteStage is a stage whose loader reads notes: the real one is asked where it does, too.
func noteStage(t *testing.T) *stage {
	s := newStage(t)
	s.o.ReadsNote = "yes"
	b, err := os.ReadFile(realLoader)
	s.noReal = err != nil || !bytes.Contains(b, []byte("\x00RESCACHE\x00"))
	for _, dir := range []string{"note", "list", "env", "other"} {
		s.put(dir+"/liba.so", lib("liba.so"))
	}
	return s
}

func TestResolutionNote(t *testing.T) {
	runpath := func(o tinyelf.Object) tinyelf.Object { return o.With(elf.DT_RUNPATH, "~/list") }
	for name, c := range map[string]struct {
		object func(s *stage) tinyelf.Object
		path   string
		rule   Rule
		entry  string
	}{
		"a file before the run path": {func(s *stage) tinyelf.Object {
			return s.noted(runpath(prog("liba.so")), "liba.so", "=~/note/liba.so")
		}, "~/note/liba.so", ByNote, "=~/note/liba.so"},
		"a directory": {func(s *stage) tinyelf.Object { return s.noted(runpath(prog("liba.so")), "liba.so", "?~/note") }, "~/note/liba.so", ByNote, "?~/note"},
		"a token":     {func(s *stage) tinyelf.Object { return s.noted(runpath(prog("liba.so")), "liba.so", "?$ORIGIN/note") }, "~/note/liba.so", ByNote, "?$ORIGIN/note"},
		"no token in a file": {func(s *stage) tinyelf.Object {
			return s.noted(runpath(prog("liba.so")), "liba.so", "=$ORIGIN/note/liba.so")
		}, "~/list/liba.so", ByRunPath, "~/list"},
		"a relative directory": {func(s *stage) tinyelf.Object { return s.noted(runpath(prog("liba.so")), "liba.so", "?note") }, "note/liba.so", ByNote, "?note"},
		"a relative file":      {func(s *stage) tinyelf.Object { return s.noted(runpath(prog("liba.so")), "liba.so", "=note/liba.so") }, "note/liba.so", ByNote, "=note/liba.so"},
		"an empty directory is none, unlike in a run path": {func(s *stage) tinyelf.Object {
			s.put("liba.so", lib("liba.so"))
			return s.noted(runpath(prog("liba.so")), "liba.so", "?:=:")
		}, "~/list/liba.so", ByRunPath, "~/list"},
		"one place after the other": {func(s *stage) tinyelf.Object {
			return s.noted(runpath(prog("liba.so")), "liba.so", "=~/none/liba.so:?~/none:x:=~/note/liba.so")
		}, "~/note/liba.so", ByNote, "=~/note/liba.so"},
		"another machine's file": {func(s *stage) tinyelf.Object {
			alien := lib("liba.so")
			alien.Machine = elf.EM_AARCH64
			s.put("alien/liba.so", alien)
			return s.noted(runpath(prog("liba.so")), "liba.so", "=~/alien/liba.so:=~/other/liba.so")
		}, "~/other/liba.so", ByNote, "=~/other/liba.so"},
		"nothing there": {func(s *stage) tinyelf.Object {
			return s.noted(runpath(prog("liba.so")), "liba.so", "=~/none/liba.so")
		}, "~/list/liba.so", ByRunPath, "~/list"},
		"another name": {func(s *stage) tinyelf.Object {
			return s.noted(runpath(prog("liba.so")), "libb.so", "=~/note/liba.so")
		}, "~/list/liba.so", ByRunPath, "~/list"},
		"the first of two": {func(s *stage) tinyelf.Object {
			return s.noted(runpath(prog("liba.so")), "liba.so", "=~/other/liba.so", "liba.so", "=~/note/liba.so")
		}, "~/other/liba.so", ByNote, "=~/other/liba.so"},
		"LD_LIBRARY_PATH before it": {func(s *stage) tinyelf.Object {
			s.o.LibraryPath = "~/env"
			return s.noted(runpath(prog("liba.so")), "liba.so", "=~/note/liba.so")
		}, "~/env/liba.so", ByEnv, "~/env"},
		"DT_RPATH before it": {func(s *stage) tinyelf.Object {
			return s.noted(prog("liba.so").With(elf.DT_RPATH, "~/list"), "liba.so", "=~/note/liba.so")
		}, "~/list/liba.so", ByRPath, "~/list"},
		"without a run path": {func(s *stage) tinyelf.Object { return s.noted(prog("liba.so"), "liba.so", "=~/note/liba.so") }, "~/note/liba.so", ByNote, "=~/note/liba.so"},
		"of the object that asks, not of the program": {func(s *stage) tinyelf.Object {
			s.put("list/libp.so", runpath(lib("libp.so")).Needs("liba.so"))
			return s.noted(runpath(prog("libp.so")), "liba.so", "=~/note/liba.so")
		}, "~/list/liba.so", ByRunPath, "~/list"},
		"of a library": {func(s *stage) tinyelf.Object {
			s.put("list/libp.so", s.noted(lib("libp.so").Needs("liba.so"), "liba.so", "=~/note/liba.so"))
			return runpath(prog("libp.so"))
		}, "~/note/liba.so", ByNote, "=~/note/liba.so"},
		"it does not end in two NULs": {func(s *stage) tinyelf.Object {
			o := s.noted(runpath(prog("liba.so")), "liba.so", "=~/note/liba.so")
			o.Resolution = strings.TrimSuffix(o.Resolution, "\x00")
			return o
		}, "~/list/liba.so", ByRunPath, "~/list"},
		"malformed after it": {func(s *stage) tinyelf.Object {
			return s.noted(runpath(prog("liba.so")), "liba.so", "=~/note/liba.so", "libb.so", "", "x")
		}, "~/note/liba.so", ByNote, "=~/note/liba.so"},
		"malformed, and come to before": {func(s *stage) tinyelf.Object {
			s.put("list/libc.so", lib("libc.so"))
			return s.noted(runpath(prog("libc.so", "liba.so")), "liba.so", "=~/note/liba.so", "libb.so", "", "x")
		}, "~/list/liba.so", ByRunPath, "~/list"},
		"glibc-hwcaps below a directory": {func(s *stage) tinyelf.Object {
			s.noReal, s.o.CPU = true, "x86-64-v3"
			s.put("note/glibc-hwcaps/x86-64-v3/liba.so", lib("liba.so"))
			return s.noted(runpath(prog("liba.so")), "liba.so", "?~/note")
		}, "~/note/glibc-hwcaps/x86-64-v3/liba.so", ByNote, "?~/note"},
	} {
		t.Run(name, func(t *testing.T) {
			s := noteStage(t)
			s.put("program", c.object(s))
			o := s.want("program", "liba.so", c.path, c.rule)
			if o.Entry != s.path(c.entry) || o.List == nil && c.rule != ByEnv {
				t.Errorf("by %q, want %q", o.Entry, s.path(c.entry))
			}
		})
	}
}

// What dlopen opens for an object is where its note says, too.
func TestResolutionNoteOfDlopen(t *testing.T) {
	s := noteStage(t)
	s.put("program", s.noted(prog().With(elf.DT_RUNPATH, "~/list"), "liba.so", "=~/note/liba.so"))
	load := s.load("program")
	if o := load.Open("liba.so", load.Main, DlopenAsked, "").To; o.Path != s.dir+"/note/liba.so" || o.Rule != ByNote {
		t.Errorf("%s by %s", o.Path, o.Rule)
	}
}

// What dlopen answers is the first of what fails: the loader maps what is needed, the nearer first, and then looks at versions.
func TestFirstFailureOfDlopen(t *testing.T) {
	s := newStage(t)
	old := lib("libold.so")
	old.Defines = []string{"V_1"}
	s.put("libold.so", old)
	far := lib("libfar.so").Needs("libgone.so", "libold.so")
	far.Requires = []tinyelf.Requirement{{Library: "libold.so", Version: "V_2"}}
	s.put("libfar.so", far.With(elf.DT_RUNPATH, "~"))
	s.put("libnear.so", lib("libnear.so").Needs("libold.so").With(elf.DT_RUNPATH, "~"))
	s.put("liba.so", lib("liba.so").Needs("libfar.so", "libnear.so", "libmissing.so").With(elf.DT_RUNPATH, "~"))
	s.put("libb.so", lib("libb.so").With(elf.DT_AUXILIARY, "libfar.so").With(elf.DT_AUXILIARY, "libno.so").With(elf.DT_RUNPATH, "~"))
	s.put("program", prog("libc.so.6").With(elf.DT_RUNPATH, "~"))
	load := s.load("program")
	for name, want := range map[string]string{"liba.so": "libmissing.so, which ~/liba.so needs, is not found", "libb.so": "libgone.so, which ~/libfar.so needs, is not found"} {
		if got := load.Open(name, load.Main, DlopenAsked, "").Why; got != s.path(want) {
			t.Errorf("%s: %q, want %q", name, got, s.path(want))
		}
	}
}

// A file that is no library stops the load, as in any other place; how it was found is said.
func TestResolutionNoteIsSaid(t *testing.T) {
	s := noteStage(t)
	s.raw("text/liba.so", strings.Repeat("text ", 20))
	s.put("program", s.noted(prog("liba.so"), "liba.so", "=~/none:=~/text/liba.so:=~/note/liba.so"))
	load := s.load("program")
	o := load.Objects[1]
	if o.Err != "invalid ELF header" || load.Err == "" || len(o.Tried) != 1 || o.Tried[0].Rule != ByNote {
		t.Errorf("%q, %+v", o.Err, o.Tried)
	}
	if got, want := o.How(load.Main), "by the note: ="+s.dir+"/text/liba.so"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := o.How(nil), "by the note of "+s.dir+"/program: ="+s.dir+"/text/liba.so"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Which loader reads notes is told from its own file, unless somebody says so.
func TestLoaderThatReadsNotes(t *testing.T) {
	for _, c := range []struct {
		data, says string
		want       bool
	}{
		{"\x00RUNPATH\x00RESCACHE\x00", "", true},
		{"\x00RUNPATH\x00RPATH\x00", "", false},
		{"\x00RESCACHE\x00", "no", false},
		{"", "yes", true},
	} {
		s := newStage(t)
		s.put("ld.so", tinyelf.Object{Data: "\x00release version 2.43\x00" + c.data})
		s.put("liba/liba.so", lib("liba.so"))
		p := s.noted(prog("liba.so"), "liba.so", "=~/liba/liba.so")
		p.Interp = s.dir + "/ld.so"
		s.put("program", p)
		s.o.ReadsNote, s.noReal = c.says, true
		load := s.load("program")
		if got := load.Interp.ReadsNote; got != c.want || load.Objects[1].Found() != c.want {
			t.Errorf("%q, --loader-reads-note %q: %v, found: %v", c.data, c.says, got, load.Objects[1].Found())
		}
		if n := load.Main.File.Note; len(n) != 1 || n[0].Name != "liba.so" || n[0].Places[0] != resolution.Place("="+s.dir+"/liba/liba.so") {
			t.Error(n)
		}
	}
}
