package edit_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/edit/parts"
	"cuda-runpath/pkg/edit/runpaths"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/tests/tinyelf"
)

// noteOf returns the description of a file's resolution note.
func noteOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	im, err := elfimage.Parse(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	note, err := im.ResolutionCache()
	if err != nil {
		t.Fatal(err)
	}
	if note == nil {
		return ""
	}
	return note.Description
}

// A note that says nothing is a note: it is rewritten, or removed.
func TestNoteThatSaysNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "liba.so"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for remove, want := range map[bool]edit.NoteResult{false: edit.NoteRewritten, true: edit.NoteRemoved} {
		o := library(tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "liba.so"}, tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: dir})
		o.Resolution = "x"
		data := o.Bytes()
		at := bytes.Index(data, []byte("NixOS\x00"))
		data[at-8] = 0           // descsz
		for p := 64; ; p += 56 { // and no more in its PT_NOTE
			if binary.LittleEndian.Uint64(data[p+8:]) == uint64(at-12) {
				data[p+32], data[p+40] = data[p+32]-4, data[p+40]-4
				break
			}
		}
		put(t, map[string][]byte{"f": data})
		e := parts.Edit{Options: edit.Options{Note: &edit.Note{Maps: normal.New(normal.Settings{}), Remove: remove}}}
		if r := each(t, e.File, "f")["f"].Result; r.Note != want || r.Action != edit.Edited || r.Err != nil {
			t.Errorf("remove %v: the note %q, %s, %v", remove, r.Note, r.Action, r.Err)
		}
	}
}

// A file that has a note has the right one after each edit, whatever that is about; another one has none, unless
// it is asked for.
func TestNote(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one/liba.so", "two/liba.so", "stubs/liba.so"} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	one, two, stubs := dir+"/one", dir+"/two", dir+"/stubs"
	says := func(name, places string) string { return name + "\x00" + places + "\x00\x00" }
	right := says("liba.so", "="+one+"/liba.so")
	object := func(list, note string) tinyelf.Object {
		o := library(tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "liba.so"}, tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: list})
		o.Resolution = note
		return o
	}
	set := func(list string) runpaths.Edit {
		return runpaths.Edit{Rewrite: func(runpath.List) runpath.List { return runpath.Parse(list) }}
	}
	interpreter := "/nix/ld.so"
	program := object(one, right)
	program.Interp = "/lib/ld.so"
	for name, c := range map[string]struct {
		object        tinyelf.Object
		ask           any
		write, remove bool
		action        edit.Action
		note          edit.NoteResult
		want          string
	}{
		"another run path":                 {object(one, right), set(two), false, false, edit.Edited, edit.NoteRewritten, says("liba.so", "="+two+"/liba.so")},
		"the same run path":                {object(one, right), set(one), false, false, edit.Unchanged, edit.NoteRight, right},
		"the same run path, a wrong note":  {object(one, says("liba.so", "=/x")), set(one), false, false, edit.Edited, edit.NoteRewritten, right},
		"a note that the loader ignores":   {object(one, "x"), set(one), false, false, edit.Edited, edit.NoteRewritten, right},
		"none, and none asked for":         {object(one, ""), set(two), false, false, edit.Edited, edit.NoteNone, ""},
		"none, and one asked for":          {object(one, ""), set(two), true, false, edit.Edited, edit.NoteWritten, says("liba.so", "="+two+"/liba.so")},
		"none, with the same run path":     {object(one, ""), set(one), true, false, edit.Edited, edit.NoteWritten, right},
		"no run path any more":             {object(one, right), set(""), true, false, edit.Edited, edit.NoteRemoved, ""},
		"nothing to say":                   {object(one, ""), set(""), true, false, edit.Edited, edit.NoteNone, ""},
		"removed":                          {object(one, right), parts.Edit{}, false, true, edit.Edited, edit.NoteRemoved, ""},
		"removed where there is none":      {object(one, ""), parts.Edit{}, false, true, edit.Unchanged, edit.NoteNone, ""},
		"written":                          {object(one, ""), parts.Edit{}, true, false, edit.Edited, edit.NoteWritten, right},
		"written again":                    {object(one, right), parts.Edit{}, true, false, edit.Unchanged, edit.NoteRight, right},
		"a stub directory goes":            {object(stubs+":"+one, says("liba.so", "="+stubs+"/liba.so")), runpaths.Edit{Maps: runpath.ReplaceStubs}, false, false, edit.Edited, edit.NoteRewritten, says("liba.so", "?/run/opengl-driver/lib:="+one+"/liba.so")},
		"a stub directory that stays":      {object(stubs, says("liba.so", "="+stubs+"/liba.so")), runpaths.Edit{Maps: runpath.AddDriverLink}, false, false, edit.Edited, edit.NoteRewritten, says("liba.so", "?/run/opengl-driver/lib:?"+stubs)},
		"not for the driver, a wrong note": {object(one, says("liba.so", "=/x")), runpaths.Edit{Maps: runpath.AddDriverLink, WhenNeeds: true}, false, false, edit.Edited, edit.NoteRewritten, right},
		"not for the driver, a right note": {object(one, right), runpaths.Edit{Maps: runpath.AddDriverLink, WhenNeeds: true}, false, false, edit.Skipped, edit.NoteRight, right},
		"one more needed library":          {object(one+":/none", right), parts.Edit{AddNeeded: []string{"libb.so"}}, false, false, edit.Edited, edit.NoteRewritten, "liba.so\x00=" + one + "/liba.so:?/none\x00" + says("libb.so", "?/none")},
		"what is searched stays searched":  {object(one, says("liba.so", "?"+one)), parts.Edit{}, true, false, edit.Unchanged, edit.NoteRight, says("liba.so", "?"+one)},
		"another interpreter":              {program, parts.Edit{Interpreter: &interpreter}, false, false, edit.Edited, edit.NoteRight, right},
		"a file that no run path is for":   {tinyelf.Object{Type: elf.ET_REL, Resolution: right}, set(two), true, false, edit.Skipped, edit.NoteNone, right},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, map[string][]byte{"f": c.object.Bytes()})
			o := edit.Options{Note: &edit.Note{Maps: normal.New(normal.Settings{}), Write: c.write, Remove: c.remove}}
			do := func() edit.Result {
				switch ask := c.ask.(type) {
				case runpaths.Edit:
					ask.Options, ask.Normal = o, o.Note.Maps
					return each(t, ask.File, "f")["f"].Result
				case parts.Edit:
					ask.Options = o
					return each(t, ask.File, "f")["f"].Result
				}
				panic(c.ask)
			}
			r := do()
			if r.Action != c.action || r.Note != c.note || r.Err != nil {
				t.Errorf("%s, the note %q, %v; want %s, %q", r.Action, r.Note, r.Err, c.action, c.note)
			}
			if c.object.Type == elf.ET_REL {
				return
			}
			if got := noteOf(t, "f"); got != c.want {
				t.Errorf("the note says %q, want %q", got, c.want)
			}
			if r := do(); r.Action == edit.Edited || r.Note.Changed() {
				t.Errorf("again: %s, the note %q", r.Action, r.Note)
			}
		})
	}
}
