package edit_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/edit/parts"
	"cuda-runpath/pkg/edit/runpaths"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
	"cuda-runpath/tests/tinyelf"
)

func library(strings ...tinyelf.Entry) tinyelf.Object { return tinyelf.Object{Strings: strings} }

// put writes files into a directory and makes it the working directory.
func put(t *testing.T, files map[string][]byte) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, data := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// each calls do for the files of a walk.
func each[R any](t *testing.T, do func(*tree.File) R, paths ...string) map[string]R {
	t.Helper()
	type named struct {
		path   string
		result R
	}
	out := map[string]R{}
	err := tree.Walk(context.Background(), paths, tree.Options{Jobs: 1}, func(f *tree.File) (named, bool) {
		return named{f.Path, do(f)}, true
	}, func(n named) { out[n.path] = n.result })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// stringsOf returns the needed libraries or the run path that a file has.
func stringsOf(t *testing.T, path string, tag elf.DynTag) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	im, err := elfimage.Parse(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if tag == elf.DT_NEEDED {
		needed, err := im.Needed()
		if err != nil {
			t.Fatal(err)
		}
		return needed
	}
	has, list, err := im.RunPath()
	if err != nil {
		t.Fatal(err)
	}
	if has != tag {
		return nil
	}
	return []string{list}
}

func TestFile(t *testing.T) {
	lib := library(tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: "/old"}).Bytes()
	broken := append([]byte("\x7fELF"), make([]byte, 60)...)
	to := func(list string) edit.Decide {
		return func(im *elfimage.Image) (*elfedit.Change, string, error) {
			return &elfedit.Change{RunPath: &elfedit.RunPath{Tag: elf.DT_RUNPATH, List: list}}, "", nil
		}
	}
	undecided := errors.New("undecided")
	for name, c := range map[string]struct {
		data    []byte
		decide  edit.Decide
		options edit.Options
		want    edit.Action
		text    string // of the reason or the error
		has     string
	}{
		"edited":         {lib, to("/new"), edit.Options{}, edit.Edited, "", "/new"},
		"in place":       {lib, to("/new"), edit.Options{InPlace: true}, edit.Edited, "", "/new"},
		"dry run":        {lib, to("/new"), edit.Options{DryRun: true}, edit.Edited, "", "/old"},
		"it has that":    {lib, to("/old"), edit.Options{}, edit.Unchanged, "", "/old"},
		"no change":      {lib, func(*elfimage.Image) (*elfedit.Change, string, error) { return nil, "", nil }, edit.Options{}, edit.Unchanged, "", "/old"},
		"no place":       {lib, func(*elfimage.Image) (*elfedit.Change, string, error) { return nil, "a reason", nil }, edit.Options{}, edit.Skipped, "a reason", "/old"},
		"no decision":    {lib, func(*elfimage.Image) (*elfedit.Change, string, error) { return nil, "", undecided }, edit.Options{}, edit.Failed, "undecided", "/old"},
		"a fault":        {lib, func(*elfimage.Image) (*elfedit.Change, string, error) { panic("oh") }, edit.Options{}, edit.Failed, "internal error: oh", "/old"},
		"cannot be made": {lib, to("/a\x00b"), edit.Options{}, edit.Failed, "NUL", "/old"},
		"no ELF file":    {[]byte("#!/bin/sh\n"), to("/new"), edit.Options{}, edit.Skipped, string(elfimage.NotELF), ""},
		"malformed":      {broken, to("/new"), edit.Options{}, edit.Failed, "unknown data encoding", ""},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, map[string][]byte{"f": c.data})
			r := each(t, func(f *tree.File) edit.Result { return edit.File(f, c.options, c.decide) }, "f")["f"]
			text := r.Reason
			if r.Err != nil {
				text = r.Err.Error()
			}
			if r.Action != c.want || !strings.Contains(text, c.text) || c.text == "" && text != "" || (r.Err != nil) != (c.want == edit.Failed) {
				t.Errorf("%s %q, want %s %q", r.Action, text, c.want, c.text)
			}
			if c.has != "" {
				if diff := cmp.Diff([]string{c.has}, stringsOf(t, "f", elf.DT_RUNPATH)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestFileOfAWalk(t *testing.T) {
	lib := library(tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: "/old"}).Bytes()
	put(t, map[string][]byte{"a.so": lib, "c.so": lib})
	if err := errors.Join(os.Link("a.so", "b.so"), os.Chmod("c.so", 0o444)); err != nil {
		t.Fatal(err)
	}
	p := runpaths.Edit{Normal: normal.New(normal.Settings{}), Rewrite: func(runpath.List) runpath.List { return runpath.List{"/new"} }}
	got := each(t, p.File, ".")
	if r := got["./a.so"]; r == nil || r.Action != edit.Edited || r.LeftLinks != 0 {
		t.Errorf("%+v", r)
	}
	if r := got["./b.so"]; r == nil || r.Action != edit.Skipped || !strings.Contains(r.Reason, "a.so") {
		t.Errorf("%+v", r)
	}
	a, err := os.Stat("a.so")
	b, err2 := os.Stat("b.so")
	if err != nil || err2 != nil || !os.SameFile(a, b) {
		t.Errorf("the names of one file in the walk are torn apart: %v, %v", err, err2)
	}
	// What a failed write left is what is reported, and nothing that was planned.
	p = runpaths.Edit{Normal: normal.New(normal.Settings{}), Rewrite: func(runpath.List) runpath.List {
		if err := os.WriteFile("a.so", library(tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: "/by/another"}).Bytes(), 0o644); err != nil {
			t.Error(err)
		}
		return runpath.List{"", "/never"}
	}}
	f, err := tree.Open("a.so")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := p.File(f)
	if r.Action != edit.Failed || r.After.List.String() != "/by/another" || r.Notes.Empties != 0 {
		t.Errorf("%+v", r)
	}
}

func TestRunPaths(t *testing.T) {
	set := func(list string) func(runpath.List) runpath.List {
		return func(runpath.List) runpath.List { return runpath.Parse(list) }
	}
	entry := func(tag elf.DynTag, list string) tinyelf.Entry { return tinyelf.Entry{Tag: tag, Str: list} }
	for name, c := range map[string]struct {
		object   tinyelf.Object
		ask      runpaths.Edit
		settings normal.Settings
		want     edit.Action
		after    edit.State
		lost     string
	}{
		"set":                          {library(entry(elf.DT_RUNPATH, "/a")), runpaths.Edit{Rewrite: set("/b")}, normal.Settings{}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/b"}}, ""},
		"removed":                      {library(entry(elf.DT_RUNPATH, "/a")), runpaths.Edit{Rewrite: set("")}, normal.Settings{}, edit.Edited, edit.State{}, ""},
		"none, and none asked for":     {library(), runpaths.Edit{Rewrite: set("")}, normal.Settings{}, edit.Unchanged, edit.State{}, ""},
		"a DT_RPATH":                   {library(entry(elf.DT_RPATH, "/a")), runpaths.Edit{Rewrite: set("/b")}, normal.Settings{}, edit.Edited, edit.State{elf.DT_RPATH, runpath.List{"/b"}}, ""},
		"--force-runpath":              {library(entry(elf.DT_RPATH, "/a")), runpaths.Edit{Rewrite: set("/a"), Tag: runpaths.Tag{ForceRunPath: true}}, normal.Settings{}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/a"}}, ""},
		"--force-rpath":                {library(entry(elf.DT_RUNPATH, "/a")), runpaths.Edit{Rewrite: set("/a"), Tag: runpaths.Tag{ForceRPath: true, ForceRunPath: true}}, normal.Settings{}, edit.Edited, edit.State{elf.DT_RPATH, runpath.List{"/a"}}, ""},
		"a program without one":        {tinyelf.Object{Interp: "/ld.so"}.Needs("libx.so.1"), runpaths.Edit{Rewrite: set("/b")}, normal.Settings{}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/b"}}, ""},
		"a library without one":        {library(entry(elf.DT_NEEDED, "libx.so.1")), runpaths.Edit{Rewrite: set("/b")}, normal.Settings{}, edit.Edited, edit.State{elf.DT_RPATH, runpath.List{"/b"}}, ""},
		"one that needs nothing":       {library(entry(elf.DT_NEEDED, "libc.so.6")), runpaths.Edit{Maps: runpath.AddDriverLink}, normal.Settings{DriverLink: "/link"}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/link"}}, ""},
		"both tags":                    {library(entry(elf.DT_RUNPATH, "/a"), entry(elf.DT_RPATH, "/lost")), runpaths.Edit{Rewrite: set("/a")}, normal.Settings{}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/a"}}, "/lost"},
		"an empty entry":               {library(), runpaths.Edit{Rewrite: set("/a::/b")}, normal.Settings{}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/a", "/b"}}, ""},
		"an empty entry that is meant": {library(), runpaths.Edit{Rewrite: set("/a::/b")}, normal.Settings{KeepEmpty: true}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/a", "", "/b"}}, ""},
		"twice":                        {library(), runpaths.Edit{Rewrite: set("/a:/b:/a/")}, normal.Settings{Dedupe: true}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/a", "/b"}}, ""},
		"the driver link":              {library(entry(elf.DT_RUNPATH, "/a")), runpaths.Edit{Maps: runpath.AddDriverLink}, normal.Settings{DriverLink: "/link"}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/link", "/a"}}, ""},
		"the driver link, if needed":   {library(entry(elf.DT_NEEDED, "libcuda.so.1")), runpaths.Edit{Maps: runpath.AddDriverLink, WhenNeeds: true}, normal.Settings{DriverLink: "/link"}, edit.Edited, edit.State{elf.DT_RPATH, runpath.List{"/link"}}, ""},
		"it is not needed":             {library(entry(elf.DT_RUNPATH, "/a")), runpaths.Edit{Maps: runpath.AddDriverLink, WhenNeeds: true}, normal.Settings{DriverLink: "/link"}, edit.Skipped, edit.State{elf.DT_RUNPATH, runpath.List{"/a"}}, ""},
		"a stub directory":             {library(entry(elf.DT_NEEDED, "libcuda.so.1"), entry(elf.DT_RUNPATH, "/cuda/stubs:/a")), runpaths.Edit{Maps: runpath.ReplaceStubs}, normal.Settings{DriverLink: "/link"}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/link", "/a"}}, ""},
		"shrink":                       {library(entry(elf.DT_RUNPATH, "/unused:/kept")), runpaths.Edit{Shrink: func(e string) bool { return e == "/kept" }}, normal.Settings{}, edit.Edited, edit.State{elf.DT_RUNPATH, runpath.List{"/kept"}}, ""},
		"an executable stack":          {tinyelf.Object{Stack: elf.PF_R | elf.PF_W | elf.PF_X}, runpaths.Edit{ClearExecStack: true}, normal.Settings{}, edit.Edited, edit.State{}, ""},
		"no run path belongs in it":    {tinyelf.Object{Type: elf.ET_REL}, runpaths.Edit{Rewrite: set("/b")}, normal.Settings{}, edit.Skipped, edit.State{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, map[string][]byte{"f": c.object.Bytes()})
			c.ask.Normal = normal.New(c.settings)
			r := each(t, c.ask.File, "f")["f"]
			if r.Action != c.want || r.Err != nil {
				t.Fatalf("%s %v, want %s", r.Action, r.Err, c.want)
			}
			if diff := cmp.Diff(c.after, r.After); diff != "" {
				t.Error(diff)
			}
			if lost := ""; r.Shadowed != nil && *r.Shadowed != c.lost || r.Shadowed == nil && c.lost != lost {
				t.Errorf("lost: %v, want %q", r.Shadowed, c.lost)
			}
			if c.object.Type == elf.ET_REL {
				return
			}
			for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
				var want []string
				if c.after.Tag == tag {
					want = []string{c.after.List.String()}
				}
				if diff := cmp.Diff(want, stringsOf(t, "f", tag)); diff != "" {
					t.Errorf("%v in the file: %s", tag, diff)
				}
			}
			if again := each(t, c.ask.File, "f")["f"]; again.Action == edit.Edited {
				t.Errorf("a second edit changes it from %v to %v", again.Before, again.After)
			}
		})
	}
}

func TestOfferIsNoEdit(t *testing.T) {
	put(t, map[string][]byte{"f": library(tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: "/cuda/stubs"}).Bytes()})
	p := runpaths.Edit{Options: edit.Options{DryRun: true}, Normal: normal.New(normal.Settings{}), Maps: runpath.ReplaceStubs, Offer: true}
	r := each(t, p.File, "f")["f"]
	if r.Action != edit.Unchanged || len(r.Stubs) != 1 || r.Stubs[0] != "/cuda/stubs" {
		t.Errorf("%+v", r)
	}
}

func TestParts(t *testing.T) {
	text := func(s string) *string { return &s }
	yes, no := true, false
	base := library(tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "liba.so"}, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "libb.so"})
	program := base
	program.Interp = "/lib/ld.so"
	versions := base
	versions.Requires = []tinyelf.Requirement{{Library: "liba.so", Version: "V_1"}}
	stack := base
	stack.Stack = elf.PF_R | elf.PF_W | elf.PF_X
	for name, c := range map[string]struct {
		object  tinyelf.Object
		ask     parts.Edit
		want    edit.Action
		reason  string
		changes []parts.Change
		notes   int
	}{
		"interpreter":                      {program, parts.Edit{Interpreter: text("/nix/ld.so")}, edit.Edited, "", []parts.Change{{Part: "interpreter", Before: "/lib/ld.so", After: "/nix/ld.so"}}, 0},
		"the same interpreter":             {program, parts.Edit{Interpreter: text("/lib/ld.so")}, edit.Unchanged, "", nil, 0},
		"a library's interpreter":          {base, parts.Edit{Interpreter: text("/nix/ld.so")}, edit.Skipped, "library", nil, 0},
		"soname":                           {base, parts.Edit{Soname: text("libme.so")}, edit.Edited, "", []parts.Change{{Part: "soname", Before: nil, After: "libme.so"}}, 0},
		"a program's soname":               {program, parts.Edit{Soname: text("libme.so")}, edit.Skipped, "program", nil, 0},
		"needed added":                     {base, parts.Edit{AddNeeded: []string{"libb.so", "libc.so"}}, edit.Edited, "", []parts.Change{{Part: "needed", Before: []string{"liba.so", "libb.so"}, After: []string{"liba.so", "libb.so", "libc.so"}}}, 0},
		"needed added first":               {base, parts.Edit{AddNeeded: []string{"libc.so"}, AddFirst: true}, edit.Edited, "", []parts.Change{{Part: "needed", Before: []string{"liba.so", "libb.so"}, After: []string{"libc.so", "liba.so", "libb.so"}}}, 0},
		"needed replaced":                  {base, parts.Edit{ReplaceNeeded: map[string]string{"liba.so": "/abs/liba.so"}}, edit.Edited, "", []parts.Change{{Part: "needed", Before: []string{"liba.so", "libb.so"}, After: []string{"/abs/liba.so", "libb.so"}}}, 0},
		"needed removed":                   {base, parts.Edit{RemoveNeeded: []string{"liba.so"}}, edit.Edited, "", []parts.Change{{Part: "needed", Before: []string{"liba.so", "libb.so"}, After: []string{"libb.so"}}}, 0},
		"needed removed that is not there": {base, parts.Edit{RemoveNeeded: []string{"libz.so"}}, edit.Unchanged, "", nil, 0},
		"versions of what is removed":      {versions, parts.Edit{RemoveNeeded: []string{"liba.so"}}, edit.Edited, "", []parts.Change{{Part: "needed", Before: []string{"liba.so", "libb.so"}, After: []string{"libb.so"}}}, 1},
		"execstack cleared":                {stack, parts.Edit{ExecStack: &no}, edit.Edited, "", []parts.Change{{Part: "execstack", Before: true, After: false}}, 0},
		"execstack as it is":               {stack, parts.Edit{ExecStack: &yes}, edit.Unchanged, "", nil, 0},
		"run path":                         {base, parts.Edit{RunPath: func(runpath.List) runpath.List { return runpath.List{"/a", ""} }}, edit.Edited, "", []parts.Change{{Part: "runpath", Before: []string{}, After: []string{"/a"}}}, 0},
		"several":                          {program, parts.Edit{Interpreter: text("/nix/ld.so"), RunPath: func(runpath.List) runpath.List { return runpath.List{"/a"} }, Tag: runpaths.Tag{ForceRPath: true}}, edit.Edited, "", []parts.Change{{Part: "interpreter", Before: "/lib/ld.so", After: "/nix/ld.so"}, {Part: "runpath", Before: []string{}, After: []string{"/a"}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, map[string][]byte{"f": c.object.Bytes()})
			r := each(t, c.ask.File, "f")["f"]
			if r.Action != c.want || r.Err != nil || !strings.Contains(r.Reason, c.reason) || len(r.Notes) != c.notes {
				t.Fatalf("%s %q %v %q, want %s", r.Action, r.Reason, r.Err, r.Notes, c.want)
			}
			if diff := cmp.Diff(c.changes, r.Changes); diff != "" {
				t.Error(diff)
			}
			for _, change := range r.Changes {
				if names, ok := change.After.([]string); ok && change.Part == "needed" {
					if diff := cmp.Diff(names, stringsOf(t, "f", elf.DT_NEEDED)); diff != "" {
						t.Error(diff)
					}
				}
			}
			if again := each(t, c.ask.File, "f")["f"]; again.Action == edit.Edited {
				t.Errorf("a second edit changes %v", again.Changes)
			}
		})
	}
}

// Of a failed edit the changes that are in the file are reported, and no others.
func TestPartsThatWereMade(t *testing.T) {
	before := library(tinyelf.Entry{Tag: elf.DT_SONAME, Str: "libold.so"}, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "liba.so"})
	put(t, map[string][]byte{"f": before.Bytes()})
	f, err := tree.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	soname := "libnew.so"
	p := parts.Edit{Soname: &soname, AddNeeded: []string{"libb.so"}, RunPath: func(l runpath.List) runpath.List {
		half := library(tinyelf.Entry{Tag: elf.DT_SONAME, Str: soname}, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "liba.so"})
		if err := os.WriteFile("f", half.Bytes(), 0o644); err != nil {
			t.Error(err)
		}
		return l
	}}
	r := p.File(f)
	if diff := cmp.Diff([]parts.Change{{Part: "soname", Before: "libold.so", After: "libnew.so"}}, r.Changes); r.Action != edit.Failed || diff != "" {
		t.Errorf("%s %v: %s", r.Action, r.Err, diff)
	}
}

// Of several PT_GNU_STACK headers the last one counts, to the kernel and to glibc.
func TestTheLastStackCounts(t *testing.T) {
	object := library(tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "liba.so"})
	object.Interp, object.Stack = "/lib/ld.so", elf.PF_R|elf.PF_W|elf.PF_X
	data := object.Bytes()
	const first, size = 64, 56 // program headers of ELFCLASS64, bytes
	if elf.ProgType(data[first]) != elf.PT_PHDR {
		t.Fatal("the first program header is no PT_PHDR")
	}
	plain := make([]byte, size)
	binary.LittleEndian.PutUint32(plain, uint32(elf.PT_GNU_STACK))
	binary.LittleEndian.PutUint32(plain[4:], uint32(elf.PF_R|elf.PF_W))
	plain[48] = 16 // p_align
	copy(data[first:], plain)
	put(t, map[string][]byte{"f": data})
	no := false
	p := parts.Edit{ExecStack: &no}
	if r := each(t, p.File, "f")["f"]; r.Action != edit.Edited {
		t.Fatalf("%s %v", r.Action, r.Err)
	}
	f, err := elf.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for _, p := range f.Progs {
		if p.Type == elf.PT_GNU_STACK {
			if n++; p.Flags != elf.PF_R|elf.PF_W {
				t.Errorf("PT_GNU_STACK %d has the flags %v", n, p.Flags)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d PT_GNU_STACK", n)
	}
}
