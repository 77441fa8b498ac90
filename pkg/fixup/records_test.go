package fixup

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/tree"
)

// environment is a stage in which out is what another package manager installed: libraries
// that need libdep.so, of libs/one and libs/two. Nothing in it is a symbolic link.
func environment(t *testing.T, files ...string) *stage {
	t.Helper()
	s := newStageIn(t)
	for _, dir := range []string{"libs/one", "libs/two"} {
		s.put(dir+"/libdep.so", lib("libdep.so").Object)
	}
	for _, f := range files {
		s.put(f, lib(filepath.Base(f), "libdep.so").with(elf.DT_RUNPATH, "/old").Object)
	}
	s.set = Settings{Mode: Repair}
	return s
}

// change runs autoPatchelf by hand.
func (s *stage) change(libs string, paths ...string) []*Plan {
	s.Helper()
	plans, err := s.changed(context.Background(), libs, paths...)
	if err != nil {
		s.Error(err)
	}
	for _, p := range plans {
		if p.Err != nil {
			s.Errorf("%s: %v", p.Object.Path, p.Err)
		}
	}
	return plans
}

func (s *stage) changed(ctx context.Context, libs string, paths ...string) ([]*Plan, error) {
	for i := range paths {
		paths[i] = s.path(paths[i])
	}
	rs, err := OpenRecords(ctx, paths, func(string) {})
	if err != nil {
		return nil, err
	}
	defer rs.Close()
	ix, err := Read(ctx, Sources{Paths: paths, Libs: []string{s.path("~/libs/" + libs)}, Store: s.dir, Jobs: 2})
	if err != nil {
		return nil, err
	}
	defer ix.Close()
	set := s.set
	set.AppendRunpaths = []string{s.path("~/libs/" + libs)}
	r, err := NewResolver(ix, set)
	if err != nil {
		return nil, err
	}
	plans := r.ResolveAll(2)
	stopped, err := ix.Change(ctx, plans, Changing{Carrying: Carrying{Jobs: 2}, Records: rs})
	return plans, errors.Join(stopped, err)
}

// undo takes back, and returns by path below the folder what each file has and why one failed.
func (s *stage) undo(u Undoing, paths ...string) map[string]string {
	s.Helper()
	u.Jobs, u.Waiting = 2, func(string) {}
	for i := range paths {
		paths[i] = s.path(paths[i])
	}
	out := map[string]string{}
	if err := Undo(context.Background(), paths, u, func(u Undone) {
		path := strings.TrimPrefix(u.Path, s.dir+"/")
		out[path] = u.After.List
		if u.Gone.N > 0 {
			out[path] = fmt.Sprintf("%d gone: %s", u.Gone.N, strings.TrimPrefix(u.Gone.First, s.dir+"/"))
		}
		if u.Err != nil {
			out[path] = "failed: " + strings.ReplaceAll(u.Err.Error(), s.dir+"/", "")
		}
	}); err != nil {
		s.Error(err)
	}
	return out
}

// runPath reads a file's DT_RUNPATH, or a tag that is given, with another reader: debug/elf's,
// which leaves the dynamic section of a file without section headers to be read here.
func (s *stage) runPath(file string, tags ...elf.DynTag) string {
	s.Helper()
	f, err := elf.Open(s.dir + "/" + file)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	values := map[elf.DynTag]uint64{}
	var loads []*elf.Prog
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_LOAD:
			loads = append(loads, p)
		case elf.PT_DYNAMIC:
			b, err := io.ReadAll(p.Open())
			if err != nil {
				s.Fatal(err)
			}
			for ; len(b) >= 16 && f.ByteOrder.Uint64(b) != 0; b = b[16:] {
				values[elf.DynTag(f.ByteOrder.Uint64(b))] = f.ByteOrder.Uint64(b[8:])
			}
		}
	}
	at, ok := values[append(tags, elf.DT_RUNPATH)[0]]
	if !ok {
		return ""
	}
	at += values[elf.DT_STRTAB]
	for _, p := range loads {
		if p.Vaddr <= at && at < p.Vaddr+p.Filesz {
			b, err := io.ReadAll(io.NewSectionReader(p, int64(at-p.Vaddr), int64(p.Vaddr+p.Filesz-at)))
			if err != nil {
				s.Fatal(err)
			}
			list, _, _ := bytes.Cut(b, []byte{0})
			return string(list)
		}
	}
	s.Fatalf("%s: its run path is nowhere", file)
	return ""
}

// runPaths checks what files have; "~" stands for the folder.
func (s *stage) runPaths(want string, files ...string) {
	s.Helper()
	for _, f := range files {
		if got := s.runPath(f); got != s.path(want) {
			s.Errorf("%s has %q, and not %q", f, got, s.path(want))
		}
	}
}

// recordsBelow returns the records in the folder.
func (s *stage) recordsBelow() (names []string) {
	filepath.WalkDir(s.dir, func(p string, _ os.DirEntry, _ error) error {
		if strings.HasSuffix(p, recordSuffix) {
			names = append(names, strings.TrimPrefix(p, s.dir+"/"))
		}
		return nil
	})
	return names
}

// A tree has one record, whatever it is called in the run and by --undo.
func TestRecordWhateverTheSpelling(t *testing.T) {
	for _, c := range []struct{ dir, run, undo string }{
		{"~", "out", "out"}, {"~", "out/", "~/out"}, {"~/out", ".", "../out"}, {"~", "./out", "out/../out/"}, {"~/out", ".", "."},
		{"~/out/lib", "..", "../../out"}, {"~", "~/out", "link/."}, {"~", "link/.", "up/out"}, {"~", "up/out", "out//"},
		{"~", "out", "~/out/lib/.."}, {"~/out", "../out/.", "."}, {"~/out/lib", "../../up/out", ".."},
	} {
		t.Run(c.run+" and "+c.undo, func(t *testing.T) {
			s := environment(t, "out/a.so", "out/lib/b.so")
			s.link("out", "link")
			s.link(".", "up")
			t.Chdir(s.path(c.dir))
			s.change("one", c.run)
			s.runPaths("~/libs/one", "out/a.so", "out/lib/b.so")
			if diff := cmp.Diff([]string{"out.autopatchelf.json"}, s.recordsBelow()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]string{"out/a.so": "/old", "out/lib/b.so": "/old"}, s.undo(Undoing{}, c.undo)); diff != "" {
				t.Error(diff)
			}
			s.runPaths("/old", "out/a.so", "out/lib/b.so")
			if left := s.recordsBelow(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// What is below a tree that has a record is in that record, and can be taken back by itself.
func TestRecordIsFoundFromBelow(t *testing.T) {
	s := environment(t, "out/a.so", "out/lib/b.so", "out/lib/c.so", "out/other/d.so")
	all := []string{"out/a.so", "out/lib/b.so", "out/lib/c.so", "out/other/d.so"}
	s.change("one", "~/out")
	s.change("two", "~/out/lib")
	s.change("two", "~/out/other/d.so")
	if diff := cmp.Diff([]string{"out.autopatchelf.json"}, s.recordsBelow()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"out/lib/b.so": "/old"}, s.undo(Undoing{}, "~/out/lib/b.so")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("~/libs/one", "out/a.so")
	s.runPaths("~/libs/one:~/libs/two", "out/lib/c.so", "out/other/d.so")
	if diff := cmp.Diff(map[string]string{"out/lib/c.so": "/old"}, s.undo(Undoing{}, "~/out/lib")); diff != "" {
		t.Error(diff)
	}
	nothing := "failed: " + errNothingToUndo.Error()
	if diff := cmp.Diff(map[string]string{"out/lib": nothing, "out/gone": "failed: no such file or directory", "out/other/d.so": "/old"}, s.undo(Undoing{}, "~/out/lib", "~/out/gone", "~/out/other/d.so")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"out/a.so": "/old"}, s.undo(Undoing{}, "~/out")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("/old", all...)
	if diff := cmp.Diff(map[string]string{"out": nothing, "libs": nothing}, s.undo(Undoing{}, "~/out", "~/libs")); diff != "" {
		t.Error(diff)
	}
}

// A record that was made of something in a tree, before the tree had one, tells of the earlier
// time: both are taken back.
func TestRecordsInATreeWithARecord(t *testing.T) {
	s := environment(t, "out/a.so", "out/lib/b.so", "out/lib/deep/c.so")
	all := []string{"out/a.so", "out/lib/b.so", "out/lib/deep/c.so"}
	s.change("one", "~/out/lib/deep/c.so")
	s.change("two", "~/out/lib")
	s.change("one", "~/out")
	if diff := cmp.Diff([]string{"out/lib/deep/.autopatchelf.json", "out/lib.autopatchelf.json", "out.autopatchelf.json"}, s.recordsBelow()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"out/lib/deep/c.so": "/old"}, s.undo(Undoing{Carrying: Carrying{DryRun: true}}, "~/out/lib/deep")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"out/a.so": "/old", "out/lib/b.so": "/old", "out/lib/deep/c.so": "/old"}, s.undo(Undoing{}, "~/out")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("/old", all...)
	if left := s.recordsBelow(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}

	// One in a tree that has none is found from above.
	s.change("one", "~/out/lib/deep/c.so", "~/out/a.so")
	if diff := cmp.Diff(map[string]string{"out/a.so": "/old", "out/lib/deep/c.so": "/old"}, s.undo(Undoing{}, "~/out")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("/old", all...)
}

// A record goes on from what it knows to what a run makes of a file, in whatever bytes.
func TestRecordGoesBackToTheStart(t *testing.T) {
	s := environment(t, "out/a.so", "out/\xff.so")
	s.put("out/rpath.so", lib("rpath.so", "libdep.so").with(elf.DT_RPATH, "/latin/\xe9:$ORIGIN").Object)
	s.put("out/bare.so", lib("bare.so", "libdep.so").Object)
	s.change("one", "~/out")
	s.change("two", "~/out")
	s.edit("out/\xff.so", "/by/others")
	s.change("one", "~/out")
	want := map[string]string{"out/a.so": "/old", "out/\xff.so": "/by/others", "out/rpath.so": "/latin/\xe9:$ORIGIN", "out/bare.so": ""}
	if diff := cmp.Diff(want, s.undo(Undoing{}, "~/out")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("/by/others", "out/\xff.so")
	if list := s.runPath("out/rpath.so", elf.DT_RPATH); list != "/latin/\xe9:$ORIGIN" {
		t.Errorf("DT_RPATH is %q", list)
	}
}

// edit gives a file a run path, as another program would.
func (s *stage) edit(file, list string) {
	s.Helper()
	err := tree.Walk(context.Background(), []string{s.dir + "/" + file}, tree.Options{}, func(f *tree.File) (error, bool) {
		step := Step{At: f.Target(), To: State{Tag: elf.DT_RUNPATH, List: list}, force: true}
		var r Result
		step.apply(f, false, &r)
		return r.Err, true
	}, func(err error) {
		if err != nil {
			s.Error(err)
		}
	})
	if err != nil {
		s.Error(err)
	}
}

// What a run could not change is not in the record, and what was there stays.
func TestRecordOfWhatWasNotChanged(t *testing.T) {
	s := environment(t, "out/a.so", "out/b.so", "out/c.so")
	s.change("one", "~/out")
	rs, err := OpenRecords(context.Background(), []string{s.dir + "/out"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	ix, err := Read(context.Background(), Sources{Paths: []string{s.dir + "/out"}, Jobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	s.set.AppendRunpaths = []string{s.dir + "/libs/two"}
	s.set.Ignore = []string{"*"}
	r, err := NewResolver(ix, s.set)
	if err != nil {
		t.Fatal(err)
	}
	plans := r.ResolveAll(1)
	s.edit("out/b.so", "/by/others")
	if err := os.Remove(s.dir + "/out/c.so"); err != nil {
		t.Fatal(err)
	}
	s.put("out/c.so", lib("c.so").with(elf.DT_RUNPATH, "/new").Object)
	if stopped, err := ix.Change(context.Background(), plans, Changing{Carrying: Carrying{Jobs: 1}, Records: rs}); stopped != nil || err != nil {
		t.Fatal(stopped, err)
	}
	rs.Close()
	if p := plans[1]; p.Err == nil || p.Result.Edited || p.Result.Before.List != "/by/others" || p.Result.After != p.Result.Before {
		t.Errorf("of a file that has another run path: %v, %+v", p.Err, p.Result)
	}
	if p := plans[2]; p.Err == nil || p.Result.Edited {
		t.Errorf("of another file: %v, %+v", p.Err, p.Result)
	}
	var record Record
	if b, err := os.ReadFile(s.dir + "/out.autopatchelf.json"); err != nil || json.Unmarshal(b, &record) != nil {
		t.Fatal(err)
	}
	got := map[text]string{}
	for _, c := range record.Files {
		got[c.Path] = string(c.Before.RunPath + " " + c.After.RunPath)
	}
	want := map[text]string{"a.so": s.path("/old ~/libs/two:~/libs/one"), "b.so": s.path("/old ~/libs/one"), "c.so": s.path("/old ~/libs/one")}
	want["a.so"] = string("/old ") + s.runPath("out/a.so")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got2 := s.undo(Undoing{}, "~/out")
	if got2["out/a.so"] != "/old" || !strings.HasPrefix(got2["out/b.so"], "failed: its run path is not the recorded one") || !strings.HasPrefix(got2["out/c.so"], "failed: its run path is not the recorded one") {
		t.Errorf("%q", got2)
	}
	s.runPaths("/by/others", "out/b.so")
	s.runPaths("/new", "out/c.so")
	// With force the record's values count.
	if diff := cmp.Diff(map[string]string{"out/b.so": "/old", "out/c.so": "/old"}, s.undo(Undoing{Force: true}, "~/out")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("/old", "out/a.so", "out/b.so", "out/c.so")
}

// A renamed tree keeps its record, also one that moves with it. A copy has to be told so.
func TestRecordOfATreeThatMoves(t *testing.T) {
	for name, c := range map[string]struct {
		move  []string // from, to
		tree  string
		force bool
	}{
		"renamed": {[]string{"out", "env"}, "env", false}, "moved with its record": {[]string{"out", "libs/env", "out" + recordSuffix, "libs/env" + recordSuffix}, "libs/env", false},
		"moved with its parent": {[]string{"top", "other"}, "other/out", false}, "copied": {[]string{"copy", "libs/env", "out" + recordSuffix, "libs/env" + recordSuffix}, "libs/env", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := environment(t, "out/a.so", "top/out/a.so", "copy/a.so")
			s.change("one", "~/out", "~/top/out")
			s.change("one", "~/copy")
			for i := 0; i < len(c.move); i += 2 {
				if err := os.Rename(s.dir+"/"+c.move[i], s.dir+"/"+c.move[i+1]); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string]string{c.tree + "/a.so": "/old"}
			if c.force {
				got := s.undo(Undoing{}, c.tree+"/a.so", "~/"+c.tree)
				if !strings.Contains(got[c.tree], "belongs to another directory") {
					t.Errorf("without force: %q", got)
				}
				s.runPaths("~/libs/one", c.tree+"/a.so")
			}
			if diff := cmp.Diff(want, s.undo(Undoing{Force: c.force}, "~/"+c.tree)); diff != "" {
				t.Error(diff)
			}
			s.runPaths("/old", c.tree+"/a.so")
		})
	}
}

// A directory that is made where another one was before begins with nothing in its record.
func TestRecordOfATreeThatWasReplaced(t *testing.T) {
	s := environment(t, "out/a.so", "out/b.so")
	s.change("one", "~/out")
	if err := os.Rename(s.dir+"/out", s.dir+"/gone"); err != nil { // so that the number is not used again
		t.Fatal(err)
	}
	s.put("out/b.so", lib("b.so", "libdep.so").with(elf.DT_RUNPATH, "/other").Object)
	s.change("one", "~/out")
	if diff := cmp.Diff(map[string]string{"out/b.so": "/other"}, s.undo(Undoing{}, "~/out")); diff != "" {
		t.Error(diff)
	}
}

// claim is a record as an attacker writes it, who knows the tree's identity.
func (s *stage) claim(tree string, files ...Change) *Record {
	s.Helper()
	var st unix.Stat_t
	if err := unix.Stat(s.dir+"/"+tree, &st); err != nil {
		s.Fatal(err)
	}
	return &Record{Version: 1, Tree: identity{uint64(st.Dev), st.Ino, st.Uid}, Files: files}
}

// A record is not believed that is of another tree, that someone else could have written, or
// that is no record of a tree; and nothing of it is kept by a run.
func TestRecordsThatAreNotBelieved(t *testing.T) {
	state := func(list string) Snapshot { return Snapshot{Tag: "DT_RUNPATH", RunPath: text(list)} }
	at := func(paths ...string) func(*stage, *Record) {
		return func(_ *stage, r *Record) {
			for _, p := range paths {
				r.Files = append(r.Files, Change{Path: text(p), Before: state("/evil"), After: state("/old")})
			}
		}
	}
	inode := func(f func(*identity)) func(*stage, *Record) {
		return func(s *stage, r *Record) { at("a.so")(s, r); f(&r.Tree) }
	}
	beside := func(f func(s *stage, record string) error) func(*stage, string) error { return f }
	root := os.Geteuid() == 0
	for name, c := range map[string]struct {
		record func(*stage, *Record)
		file   func(s *stage, record string) error // done to the file
		run    string                              // why a run fails; "": it does without what is there
		skip   bool
	}{
		"out of the tree":       {at("../victim.so"), nil, "does not name a file below", false},
		"out of the tree later": {at("lib/../../victim.so"), nil, "does not name a file below", false},
		"absolute":              {at("/victim.so"), nil, "does not name a file below", false},
		"one good and one bad":  {at("a.so", "../victim.so"), nil, "does not name a file below", false},
		"empty components":      {at("lib//b.so"), nil, "does not name a file below", false},
		"the tree itself":       {at("."), nil, "does not name a file below", false},
		"nothing, among others": {at("", "a.so"), nil, "does not name a file below", false},
		"twice":                 {at("a.so", "a.so"), nil, "twice", false},
		"version 2":             {func(s *stage, r *Record) { at("a.so")(s, r); r.Version = 2 }, nil, "version 2", false},
		"version 0":             {func(s *stage, r *Record) { at("a.so")(s, r); r.Version = 0 }, nil, "version 0", false},
		"another inode":         {inode(func(id *identity) { id.Inode++ }), nil, "", false},
		"another device":        {inode(func(id *identity) { id.Device++ }), nil, "", false},
		"another owner's":       {inode(func(id *identity) { id.Owner++ }), nil, "", false},
		"no identity":           {inode(func(id *identity) { *id = identity{} }), nil, "", false},
		"others may write":      {at("a.so"), beside(func(_ *stage, f string) error { return os.Chmod(f, 0o646) }), "users other than its owner can write it", false},
		"the group may write":   {at("a.so"), beside(func(_ *stage, f string) error { return os.Chmod(f, 0o664) }), "users other than its owner can write it", false},
		"another user's":        {at("a.so"), beside(func(_ *stage, f string) error { return os.Chown(f, 12345, 0) }), "it belongs to user 12345", !root},
		"another user's, in /tmp": {at("a.so"), beside(func(s *stage, f string) error {
			return errors.Join(os.Chmod(s.dir, 0o1777|os.ModeSticky), os.Chown(f, 12345, 0))
		}), "it belongs to user 12345", !root},
		"in a directory of all": {at("a.so"), beside(func(s *stage, _ string) error { return os.Chmod(s.dir, 0o777) }), "others can replace files in its directory", false},
		"in a directory of another group": {at("a.so"), beside(func(s *stage, _ string) error {
			return errors.Join(os.Chown(s.dir, -1, 12345), os.Chmod(s.dir, 0o775))
		}), "others can replace files in its directory", !root},
		"a hard link": {at("a.so"), beside(func(s *stage, f string) error { return os.Link(f, s.dir+"/elsewhere") }), "several hard links", false},
		"a symbolic link": {at("a.so"), beside(func(s *stage, f string) error {
			return errors.Join(os.Rename(f, s.dir+"/elsewhere"), os.Symlink("elsewhere", f))
		}), "is a symbolic link", false},
		"a FIFO":      {at("a.so"), beside(func(_ *stage, f string) error { return errors.Join(os.Remove(f), unix.Mkfifo(f, 0o600)) }), "not a regular file", false},
		"a directory": {at("a.so"), beside(func(_ *stage, f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) }), "not a regular file", false},
		"too large":   {at("a.so"), beside(func(_ *stage, f string) error { return os.Truncate(f, maxRecord+1) }), "more than 64 MiB", false},
		"no JSON":     {at("a.so"), beside(func(_ *stage, f string) error { return os.Truncate(f, 20) }), "unexpected end of JSON", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.skip {
				t.Skip("for root")
			}
			s := environment(t, "out/a.so", "out/lib/b.so", "victim.so")
			files := []string{"out/a.so", "out/lib/b.so", "victim.so"}
			r := s.claim("out")
			c.record(s, r)
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			record := s.dir + "/out" + recordSuffix
			if err := os.WriteFile(record, b, 0o644); err != nil {
				t.Fatal(err)
			}
			if c.file != nil {
				if err := c.file(s, record); err != nil {
					t.Fatal(err)
				}
			}
			for _, u := range []Undoing{{}, {InPlace: true}, {Force: true}} {
				if u.Force && c.run == "" {
					continue // that is what force is for
				}
				for _, path := range []string{"~/out", "~/out/a.so", "~/out/lib"} {
					got := s.undo(u, path)
					key := path[2:]
					if len(got) != 1 || !strings.HasPrefix(got[key], "failed: out.autopatchelf.json: it is not trusted: ") || !strings.Contains(got[key], c.run) {
						if c.run != "" || len(got) != 1 || !strings.Contains(got[key], "belongs to another directory") {
							t.Errorf("%+v of %s: %q", u, path, got)
						}
					}
				}
			}
			s.runPaths("/old", files...)

			plans, err := s.changed(context.Background(), "one", "~/out")
			if c.run != "" {
				if err == nil || !strings.Contains(err.Error(), c.run) || !strings.Contains(err.Error(), "--no-record") {
					t.Errorf("a run: %v", err)
				}
				for _, p := range plans {
					if p.Result.Edited {
						t.Errorf("a run edits %s", p.Object.Path)
					}
				}
				s.runPaths("/old", files...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s.runPaths("~/libs/one", "out/a.so", "out/lib/b.so")
			if diff := cmp.Diff(map[string]string{"out/a.so": "/old", "out/lib/b.so": "/old"}, s.undo(Undoing{}, "~/out")); diff != "" {
				t.Error(diff)
			}
			s.runPaths("/old", files...)
		})
	}
}

// The record of a directory with the sticky bit, of one that the caller's group may write, and
// of one that root wrote, is believed.
func TestRecordsThatAreBelieved(t *testing.T) {
	for name, mode := range map[string]os.FileMode{"sticky": 0o777 | os.ModeSticky, "the caller's group": 0o775} {
		s := environment(t, "out/a.so")
		if err := os.Chmod(s.dir, mode); err != nil {
			t.Fatal(err)
		}
		s.change("one", "~/out")
		if diff := cmp.Diff(map[string]string{"out/a.so": "/old"}, s.undo(Undoing{}, "~/out")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A symbolic link on the way to a file that a record names is not followed.
func TestUndoFollowsNoLink(t *testing.T) {
	for _, u := range []Undoing{{}, {InPlace: true}, {Force: true}} {
		s := environment(t, "out/lib/b.so", "out/c.so", "outside/b.so")
		s.change("one", "~/out", "~/outside")
		err := errors.Join(os.Rename(s.dir+"/out/lib", s.dir+"/out/moved"), os.Symlink("../outside", s.dir+"/out/lib"),
			os.Rename(s.dir+"/out/c.so", s.dir+"/out/moved/c.so"), os.Symlink("../outside/b.so", s.dir+"/out/c.so"))
		if err != nil {
			t.Fatal(err)
		}
		for path, got := range s.undo(u, "~/out") {
			if !strings.HasPrefix(got, "failed: ") {
				t.Errorf("%s: %s", path, got)
			}
		}
		s.runPaths("~/libs/one", "outside/b.so")
	}
}

// An argument that is a link is refused, as the walk of an edit refuses it: with a slash after it as well.
func TestUndoRefusesALink(t *testing.T) {
	s := environment(t, "out/a.so", "out/b.so")
	s.link("out", "tree")
	s.link("out/a.so", "file")
	s.change("one", "~/out")
	for _, path := range []string{"tree", "tree/", "file", "file/"} {
		for _, u := range []Undoing{{}, {Force: true}} {
			if diff := cmp.Diff(map[string]string{path: "failed: " + tree.ErrSymlink.Error()}, s.undo(u, "~/"+path)); diff != "" {
				t.Error(diff)
			}
		}
	}
	s.runPaths("~/libs/one", "out/a.so", "out/b.so")
}

// A tree that is exchanged for a link between the walk and the edit is the one that was walked.
func TestChangeOfATreeThatWasExchanged(t *testing.T) {
	s := environment(t, "out/a.so", "out/lib/b.so", "outside/a.so", "outside/lib/b.so")
	ix, err := Read(context.Background(), Sources{Paths: []string{s.dir + "/out"}, Libs: []string{s.dir + "/libs/one"}, Jobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	s.set.AppendRunpaths = []string{"/appended"}
	r, err := NewResolver(ix, s.set)
	if err != nil {
		t.Fatal(err)
	}
	plans := r.ResolveAll(1)
	if err := errors.Join(os.Rename(s.dir+"/out", s.dir+"/moved"), os.Symlink("outside", s.dir+"/out")); err != nil {
		t.Fatal(err)
	}
	if stopped, err := ix.Change(context.Background(), plans, Changing{Carrying: Carrying{Jobs: 1}}); stopped != nil || err != nil {
		t.Fatal(stopped, err)
	}
	s.runPaths("/old", "outside/a.so", "outside/lib/b.so")
	for _, p := range plans {
		got := s.runPath("moved" + strings.TrimPrefix(p.Object.Path, s.dir+"/out"))
		if got != p.Result.After.List {
			t.Errorf("%s has %s, which is reported as %+v", p.Object.Path, got, p.Result)
		}
	}
}

// Two runs on one tree come one after the other, and what both did can be taken back.
func TestRunsWaitForEachOther(t *testing.T) {
	var files []string
	for i := range 40 {
		files = append(files, fmt.Sprintf("out/d%d/f.so", i))
	}
	s := environment(t, files...)
	var runs sync.WaitGroup
	for i, path := range []string{"~/out", "~/out/", "~/out", "~/out/../out"} {
		runs.Go(func() { s.change([]string{"one", "two"}[i%2], path) })
	}
	runs.Wait()
	for path, got := range s.undo(Undoing{}, "~/out") {
		if got != "/old" {
			t.Errorf("%s: %s", path, got)
		}
	}
	s.runPaths("/old", files...)
}

func TestRunWaitsForAnother(t *testing.T) {
	s := environment(t, "out/a.so")
	s.change("one", "~/out") // from now on there is a record
	first, err := OpenRecords(context.Background(), []string{s.dir + "/out"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/out", "/out/", "/out/a.so"} {
		ctx, stop := context.WithCancel(context.Background())
		told := ""
		_, err = OpenRecords(ctx, []string{s.dir + path}, func(tree string) { told = tree; stop() })
		if !errors.Is(err, context.Canceled) || told != s.dir+"/out" {
			t.Errorf("%s: %v, waiting for %q", path, err, told)
		}
	}
	done := make(chan *Records)
	_, err = OpenRecords(context.Background(), []string{s.dir + "/libs"}, func(string) { t.Error("waits for another tree") })
	if err != nil {
		t.Error(err)
	}
	waits := make(chan bool, 1)
	go func() {
		rs, err := OpenRecords(context.Background(), []string{s.dir + "/out"}, func(string) { waits <- true })
		if err != nil {
			t.Error(err)
		}
		done <- rs
	}()
	<-waits
	first.Close()
	(<-done).Close()
}

// A run that is stopped says of each file what has become of it, and so does the record.
func TestChangeThatIsStopped(t *testing.T) {
	for range 20 { // where the stop comes is for the scheduler to say
		if edited, all := stoppedChange(t); edited > 0 && edited < all {
			return
		}
	}
	t.Error("none or all of the files were edited, each time")
}

// stoppedChange stops a change once it has begun, compares what was done with what is said, and takes it back.
func stoppedChange(t *testing.T) (edited, all int) {
	t.Helper()
	var files []string
	for i := range 200 {
		files = append(files, fmt.Sprintf("out/f%03d.so", i))
	}
	s := environment(t, files...)
	rs, err := OpenRecords(context.Background(), []string{s.dir + "/out"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	ix, err := Read(context.Background(), Sources{Paths: []string{s.dir + "/out"}, Libs: []string{s.dir + "/libs/one"}, Jobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	r, err := NewResolver(ix, s.set)
	if err != nil {
		t.Fatal(err)
	}
	plans := r.ResolveAll(1)
	ctx, stop := context.WithCancel(context.Background())
	stopped, err := ix.Change(ctx, plans, Changing{Carrying: Carrying{Jobs: 1}, Records: rs, Progress: func(int, int) { stop() }})
	rs.Close()
	if err != nil {
		t.Error(err)
	}
	if cut := (*tree.Stopped)(nil); stopped != nil && !errors.As(stopped, &cut) {
		t.Fatal(stopped)
	}
	for _, p := range plans {
		got := s.runPath(strings.TrimPrefix(p.Object.Path, s.dir+"/"))
		if got != p.Result.After.List || p.Result.Edited != (got != "/old") || p.Result.Edited == (p.Err != nil) {
			t.Errorf("%s has %s, which is reported as %+v, %v", p.Object.Path, got, p.Result, p.Err)
		}
		if p.Result.Edited {
			edited++
		}
	}
	if edited > 0 {
		if undone := s.undo(Undoing{}, "~/out"); len(undone) != edited {
			t.Errorf("%d were edited, %d undone", edited, len(undone))
		}
	}
	s.runPaths("/old", files...)
	return edited, len(files)
}

// The lists of records are as people and other programs find them.
func TestRecordSize(t *testing.T) {
	if b, err := json.Marshal(text("\xff")); err != nil || string(b) != `{"base64":"/w=="}` {
		t.Errorf("%s, %v", b, err)
	}
	if b, err := json.Marshal(text("ü<")); err != nil || !slices.Contains([]string{`"ü<"`, `"ü\u003c"`}, string(b)) {
		t.Errorf("%s, %v", b, err)
	}
}

// A file of which the loader cannot be asked, because no path leads to it or because it
// contradicts itself, is a finding of its own: the others are changed.
func TestFilesOfWhichTheLoaderCannotBeAsked(t *testing.T) {
	s := environment(t, "out/a.so", "out/z.so")
	top, err := os.OpenRoot(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	long := "out/b/" + strings.Repeat(strings.Repeat("d", 250)+"/", 17)
	s.put("long.so", lib("long.so", "libdep.so", "libc.so.6").Object) // another kind than the others
	if err := errors.Join(top.MkdirAll(long, 0o755), top.Rename("long.so", long+"long.so")); err != nil {
		t.Fatal(err)
	}
	s.put("out/c.so", lib("c.so", "libdep.so").with(elf.DT_RUNPATH, "/old").with(elf.DT_AUDIT, "x.so").Object)
	b, err := os.ReadFile(s.dir + "/out/c.so")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, binary.LittleEndian.AppendUint64(nil, uint64(elf.DT_AUDIT)))
	binary.LittleEndian.PutUint64(b[at+8:], 0x7fffffff)
	s.raw("out/c.so", string(b))
	plans, err := s.changed(context.Background(), "one", "~/out")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range plans {
		got[filepath.Base(p.Object.Path)] = fmt.Sprintf("%v %v %q", p.Result.Edited, p.Err, p.Skip)
	}
	want := map[string]string{"a.so": `true <nil> ""`, "z.so": `true <nil> ""`, "long.so": `false the loader cannot be asked about it: file name too long ""`}
	if !strings.HasPrefix(got["c.so"], `false <nil> "it is malformed: DT_AUDIT is offset 0x7fffffff`) {
		t.Errorf("%q", got["c.so"])
	}
	delete(got, "c.so")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.runPaths("~/libs/one", "out/a.so", "out/z.so")
	s.runPaths("/old", "out/c.so")
	for path, got := range s.undo(Undoing{}, "~/out") {
		if got != "/old" {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// A directory that takes the tree's name between the look-up of the record and the walk gets
// no record of the other one, and is not changed without.
func TestRecordOfATreeThatWasExchanged(t *testing.T) {
	s := environment(t, "out/a.so", "other/a.so")
	rs, err := OpenRecords(context.Background(), []string{s.dir + "/out"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Close()
	if err := errors.Join(os.Rename(s.dir+"/out", s.dir+"/moved"), os.Rename(s.dir+"/other", s.dir+"/out")); err != nil {
		t.Fatal(err)
	}
	ix, err := Read(context.Background(), Sources{Paths: []string{s.dir + "/out"}, Libs: []string{s.dir + "/libs/one"}, Jobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	r, err := NewResolver(ix, s.set)
	if err != nil {
		t.Fatal(err)
	}
	if stopped, err := ix.Change(context.Background(), r.ResolveAll(1), Changing{Records: rs}); stopped != nil || !errors.Is(err, errExchanged) {
		t.Error(stopped, err)
	}
	s.runPaths("/old", "out/a.so", "moved/a.so")
	if left := s.recordsBelow(); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}

// What one name of a file says that it is, its other names say too.
func TestHardLinksOfAFileThatFails(t *testing.T) {
	s := environment(t, "out/a.so")
	if err := os.Link(s.dir+"/out/a.so", s.dir+"/out/b.so"); err != nil {
		t.Fatal(err)
	}
	var steps []Step
	err := tree.Walk(context.Background(), []string{s.dir + "/out"}, tree.Options{}, func(f *tree.File) (Step, bool) {
		return Step{At: f.Target(), From: State{Tag: elf.DT_RUNPATH, List: "/another"}, To: State{Tag: elf.DT_RUNPATH, List: "/new"}}, true
	}, func(step Step) { steps = append(steps, step) })
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = Apply(context.Background(), steps, Carrying{Jobs: 1}, func(r Result) {
		if n++; r.Err == nil || r.After == (State{Tag: elf.DT_RUNPATH, List: "/new"}) {
			t.Errorf("%+v", r)
		}
	})
	if err != nil || n != 2 {
		t.Errorf("%d results, %v", n, err)
	}
}

// A directory with many records is read once, and opened once.
func TestManyRecordsInOneDirectory(t *testing.T) {
	var files []string
	for i := range 60 {
		files = append(files, fmt.Sprintf("out/f%02d.so", i))
	}
	s := environment(t, files...)
	for _, f := range files {
		s.change("one", "~/"+f)
	}
	s.runPaths("~/libs/one", files...)
	var old unix.Rlimit
	open, err := os.ReadDir("/proc/self/fd")
	if err := errors.Join(err, unix.Getrlimit(unix.RLIMIT_NOFILE, &old)); err != nil {
		t.Skip(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open) + 30), Max: old.Max}); err != nil {
		t.Skip(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old) //nolint:errcheck // as it was
	if undone := s.undo(Undoing{}, "~/out"); len(undone) != len(files) {
		t.Errorf("%d of %d were undone: %q", len(undone), len(files), undone)
	}
	s.runPaths("/old", files...)
}

// Files that are given one by one have one record for each directory, from which any of them can be taken back.
func TestRecordOfSingleFiles(t *testing.T) {
	var all, some []string
	for i := range 20 {
		all = append(all, fmt.Sprintf("out/f%02d.so", i))
	}
	s := environment(t, append(all, "out/sub/g.so", "out/other.so")...)
	t.Chdir(s.dir + "/out")
	for _, f := range all {
		some = append(some, strings.TrimPrefix(f, "out/"))
	}
	s.change("one", append(some, "~/out/sub/g.so")...)
	s.runPaths("~/libs/one", append(all, "out/sub/g.so")...)
	if diff := cmp.Diff([]string{"out/.autopatchelf.json", "out/sub/.autopatchelf.json"}, s.recordsBelow()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"out/f03.so": "/old", "out/f05.so": "/old", "out/other.so": "failed: " + errNothingToUndo.Error()},
		s.undo(Undoing{}, "~/out/f03.so", "~/out/../out/f05.so", "~/out/other.so")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("/old", "out/f03.so", "out/f05.so")
	s.runPaths("~/libs/one", "out/f04.so", "out/sub/g.so")
	if err := os.Rename(s.dir+"/out", s.dir+"/renamed"); err != nil {
		t.Fatal(err)
	}
	if undone := s.undo(Undoing{}, "~/renamed"); len(undone) != 19 {
		t.Errorf("%d undone: %q", len(undone), undone)
	}
	s.runPaths("/old", "renamed/f00.so", "renamed/f19.so", "renamed/sub/g.so")
	if left := s.recordsBelow(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A file is one file under each of its names: in two trees of one run, and in one of which names are gone or new.
func TestUndoOfHardLinks(t *testing.T) {
	for name, c := range map[string]struct {
		run, undo []string
		move      []string // from, to
		remove    string
		want      string // where old is, "-" for gone
	}{
		"two trees":              {[]string{"a", "b"}, []string{"a", "b"}, nil, "", "a/f.so b/f.so b/g.so"},
		"two trees by copy":      {[]string{"a", "b"}, []string{"b"}, nil, "", "b/f.so b/g.so"},
		"a name is deleted":      {[]string{"."}, []string{"."}, nil, "a/f.so", "b/f.so b/g.so"},
		"a name is moved":        {[]string{"."}, []string{"."}, []string{"b/g.so", "a/new.so"}, "", "a/f.so b/f.so a/new.so"},
		"all names are new":      {[]string{"b"}, []string{"b"}, []string{"b/f.so", "b/x.so", "b/g.so", "b/y.so"}, "", "b/x.so b/y.so"},
		"by another name":        {[]string{"b/f.so", "b/g.so"}, []string{"b/g.so"}, nil, "", "b/f.so b/g.so"},
		"by a name without word": {[]string{"b/f.so"}, []string{"b"}, nil, "", "b/f.so"},
	} {
		t.Run(name, func(t *testing.T) {
			s := environment(t, "out/a/f.so")
			if err := errors.Join(os.Mkdir(s.dir+"/out/b", 0o755), os.Link(s.dir+"/out/a/f.so", s.dir+"/out/b/f.so"), os.Link(s.dir+"/out/a/f.so", s.dir+"/out/b/g.so")); err != nil {
				t.Fatal(err)
			}
			in := func(names []string) (out []string) {
				for _, n := range names {
					out = append(out, "~/out/"+n)
				}
				return out
			}
			s.change("one", in(c.run)...)
			for i := 0; i < len(c.move); i += 2 {
				if err := os.Rename(s.dir+"/out/"+c.move[i], s.dir+"/out/"+c.move[i+1]); err != nil {
					t.Fatal(err)
				}
			}
			if c.remove != "" {
				if err := os.Remove(s.dir + "/out/" + c.remove); err != nil {
					t.Fatal(err)
				}
			}
			for path, got := range s.undo(Undoing{}, in(c.undo)...) {
				if strings.HasPrefix(got, "failed") {
					t.Errorf("%s: %s", path, got)
				}
			}
			var first os.FileInfo
			for _, f := range strings.Fields(c.want) {
				s.runPaths("/old", "out/"+f)
				now, err := os.Stat(s.dir + "/out/" + f)
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = now
				}
				if !os.SameFile(first, now) {
					t.Errorf("%s is another file now", f)
				}
			}
		})
	}
}

// What is gone is dropped from the record, with a word.
func TestUndoOfWhatIsGone(t *testing.T) {
	s := environment(t, "out/a.so", "out/b.so", "out/c.so")
	s.change("one", "~/out")
	if err := os.Remove(s.dir + "/out/a.so"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"out" + recordSuffix: "1 gone: out/a.so", "out/b.so": "/old"}, s.undo(Undoing{}, "~/out/b.so")); diff != "" {
		t.Error(diff)
	}
	if err := os.Remove(s.dir + "/out/c.so"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"out" + recordSuffix: "1 gone: out/c.so"}, s.undo(Undoing{}, "~/out")); diff != "" {
		t.Error(diff)
	}
	if left := s.recordsBelow(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// The owner's umask says who may read a record.
func TestRecordKeepsToTheUmask(t *testing.T) {
	s := environment(t, "out/a.so")
	defer unix.Umask(unix.Umask(0o077))
	s.change("one", "~/out")
	if info, err := os.Stat(s.dir + "/out" + recordSuffix); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A part of a tree that is taken back stays one file with its names elsewhere in the tree.
func TestUndoOfAPartKeepsHardLinks(t *testing.T) {
	s := environment(t, "out/a/f.so", "out/b/g.so")
	if err := os.Link(s.dir+"/out/a/f.so", s.dir+"/out/b/f.so"); err != nil {
		t.Fatal(err)
	}
	s.change("one", "~/out")
	want := map[string]string{"out/a/f.so": "/old", "out/b/f.so": ""}
	if diff := cmp.Diff(want, s.undo(Undoing{}, "~/out/a", "~/out/a/f.so")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("/old", "out/a/f.so", "out/b/f.so")
	s.runPaths("~/libs/one", "out/b/g.so")
}

// A path within another one that is given is told of like that: of a wrong one, no record tells.
func TestUndoTellsOfEachPath(t *testing.T) {
	s := environment(t, "out/a/f.so")
	if err := os.Mkdir(s.dir+"/out/b", 0o755); err != nil {
		t.Fatal(err)
	}
	s.change("one", "~/out")
	want := map[string]string{"out/a/f.so": "/old", "out/b": "failed: " + errNothingToUndo.Error()}
	if diff := cmp.Diff(want, s.undo(Undoing{}, "~/out", "~/out/b")); diff != "" {
		t.Error(diff)
	}
}

// The record of a file within a tree that has one is read once, and gone when the file is another.
func TestUndoOfARecordedFile(t *testing.T) {
	s := environment(t, "out/f.so", "out/g.so")
	s.change("one", "~/out/f.so")
	s.change("two", "~/out")
	s.undo(Undoing{}, "~/out/f.so")
	s.runPaths("/old", "out/f.so")
	if got := s.recordsBelow(); len(got) != 1 || got[0] != "out"+recordSuffix {
		t.Errorf("records %q", got)
	}
	if diff := cmp.Diff(map[string]string{"out/f.so": "failed: " + errNothingToUndo.Error()}, s.undo(Undoing{}, "~/out/f.so")); diff != "" {
		t.Error(diff)
	}
}

// A second run that is killed between its record and its edit leaves the file as the first run left it: what it was before that
// is still known, to --undo and to a third run.
func TestUndoOfASecondRunThatWasKilled(t *testing.T) {
	for _, again := range []string{"", "two", "one"} {
		s := environment(t, "out/a.so")
		s.change("one", "~/out")
		first, err := os.ReadFile(s.dir + "/out/a.so")
		if err != nil {
			t.Fatal(err)
		}
		s.change("two", "~/out")
		if err := os.WriteFile(s.dir+"/out/a.so", first, 0o644); err != nil {
			t.Fatal(err)
		}
		if again != "" {
			s.put("out/b.so", lib("b.so", "libdep.so").Object)
			s.change(again, "~/out")
		}
		got := s.undo(Undoing{}, "~/out")
		delete(got, "out/b.so")
		if diff := cmp.Diff(map[string]string{"out/a.so": "/old"}, got); diff != "" {
			t.Errorf("%q: %s", again, diff)
		}
		s.runPaths("/old", "out/a.so")
	}
}

// A file that was renamed in its tree is still known after another run.
func TestRecordKeepsWhatWasRenamed(t *testing.T) {
	s := environment(t, "out/a.so", "out/b.so")
	s.change("one", "~/out")
	if err := os.Rename(s.dir+"/out/a.so", s.dir+"/out/z.so"); err != nil {
		t.Fatal(err)
	}
	s.put("out/c.so", lib("c.so", "libdep.so").Object)
	s.change("one", "~/out")
	if diff := cmp.Diff(map[string]string{"out/z.so": "/old", "out/b.so": "/old", "out/c.so": ""}, s.undo(Undoing{}, "~/out")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("/old", "out/b.so", "out/z.so")
}

// The same where what the run is about to do is to bring the file back to its start.
func TestUndoOfAWayBackThatWasKilled(t *testing.T) {
	s := environment(t, "out/a.so")
	one := s.change("one", "~/out")[0].Result.After
	rs, err := OpenRecords(context.Background(), []string{s.dir + "/out"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	ix, err := Read(context.Background(), Sources{Paths: []string{s.dir + "/out"}, Store: s.dir, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	back := one
	back.List = "/old"
	o, _ := ix.objects.Load(s.dir + "/out/a.so")
	if _, err := rs.add([]Step{{At: o.(*Object).at, From: one, To: back}}); err != nil {
		t.Fatal(err)
	}
	ix.Close()
	rs.Close()
	s.put("out/b.so", lib("b.so", "libdep.so").with(elf.DT_RUNPATH, "/old").Object)
	s.change("one", "~/out") // which has nothing to do with the first
	if diff := cmp.Diff(map[string]string{"out/a.so": "/old", "out/b.so": "/old"}, s.undo(Undoing{}, "~/out")); diff != "" {
		t.Error(diff)
	}
	s.runPaths("/old", "out/a.so", "out/b.so")
	if left := s.recordsBelow(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// What was not looked for to the end is not taken for gone.
func TestUndoThatIsStoppedForgetsNothing(t *testing.T) {
	s := environment(t, "out/a.so", "out/b.so")
	s.change("one", "~/out")
	if err := os.Rename(s.dir+"/out/a.so", s.dir+"/out/z.so"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := Undo(ctx, []string{s.dir + "/out/b.so"}, Undoing{Waiting: func(string) {}}, func(u Undone) {
		if u.Gone.N > 0 {
			t.Errorf("%+v is gone", u.Gone)
		}
	}); err == nil {
		t.Error("no error")
	}
	if diff := cmp.Diff(map[string]string{"out/z.so": "/old", "out/b.so": "/old"}, s.undo(Undoing{}, "~/out")); diff != "" {
		t.Error(diff)
	}
}
