package fixup

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/tree"
)

// Undoing says how changes are taken back.
type Undoing struct {
	Carrying
	// InPlace writes into the files. That is also done if hard links outside the tree lead to a file and were
	// changed, too.
	InPlace bool
	// Force believes a record for a copy of its tree, too, and takes a file back from any state.
	Force   bool
	Refuse  tree.Refuse       // of files; nil: nothing is refused
	Waiting func(tree string) // see OpenRecords
}

// Undone is the result of taking back the changes of one file, or of a path with nothing to take back.
type Undone struct {
	Result
	SameAs string // the file is another name of this one, and nothing else is set
	Left   int    // other links, which no record names, keep what the file was
	Gone   Gone   // nothing but Path is set: the record's
}

var errNothingToUndo = errors.New("nothing to undo: no record mentions it")

// Undo takes back what records tell of the files that paths lead to or that are below them. It uses the records of
// the trees that they are in, and those in them. What is taken back goes out of the record. A path without an entry
// in any record has failed.
func Undo(ctx context.Context, paths []string, u Undoing, emit func(Undone)) error {
	un := &undoing{Undoing: u, within: map[string]bool{}, names: map[fileID][]tree.Target{}, steps: map[fileID]*undoStep{}}
	defer func() {
		for _, root := range un.roots {
			root.Close()
		}
	}()
	rs := &Records{force: u.Force}
	err := rs.open(ctx, paths, u.Waiting, func(h *home) error {
		h.records = rs.above(h)
		un.within[h.real] = false
		if !h.isDir || h.real == "/" {
			return nil
		}
		return un.walk(ctx, rs, h)
	})
	if err != nil {
		return err
	}
	defer rs.Close()
	for _, r := range rs.all() {
		if !r.there {
			continue
		}
		r.load(ctx)
		if r.gone.N > 0 && r.err == nil {
			un.asked(r.gone.First)
			emit(Undone{Result: Result{Path: r.file()}, Gone: r.gone})
		}
		for i := range r.Files {
			if path, err := un.add(r, &r.Files[i]); err != nil {
				emit(Undone{Result: Result{Path: path, Err: err}})
			}
		}
	}
	for _, p := range paths {
		h, ok := rs.homes[p]
		if ok && un.within[h.real] {
			continue
		}
		var why error
		if !ok {
			_, why = realPath(p)
		}
		for _, r := range h.records {
			why = errors.Join(why, r.why())
		}
		emit(Undone{Result: Result{Path: p, Err: cmp.Or(withoutPath(why), errNothingToUndo)}})
	}
	return un.undo(ctx, rs, emit)
}

// fileID tells files apart.
type fileID struct{ dev, ino uint64 }

// undoing is one run.
type undoing struct {
	Undoing
	within map[string]bool // whether a record has an entry there, by the arguments' paths free of links
	roots  []*tree.Root
	names  map[fileID][]tree.Target // of ELF files below the arguments
	steps  map[fileID]*undoStep
	order  []*undoStep
}

// undoStep is a step and the entries of records that tell of its file.
type undoStep struct {
	Step
	entries     []*Change
	links, left int // all hard links to the file; those without an entry
	done        bool
}

// asked reports whether a path is an argument or below one, and notes that a record has an entry for it.
func (un *undoing) asked(path string) (is bool) {
	for at := path; ; at = filepath.Dir(at) {
		if _, given := un.within[at]; given {
			un.within[at], is = true, true
		}
		if at == "/" || at == "." {
			return is
		}
	}
}

// undo takes the steps.
func (un *undoing) undo(ctx context.Context, rs *Records, emit func(Undone)) error {
	var steps []Step
	byPath := map[string]*undoStep{}
	for _, s := range un.order {
		s.left = max(s.links-1-len(s.Also), 0)
		s.force, s.InPlace = un.Force, un.InPlace || s.left > 0 && s.shared
		steps = append(steps, s.Step)
		byPath[s.At.Path] = s
	}
	err := Apply(ctx, steps, un.Carrying, func(r Result) {
		s := byPath[r.Path]
		s.done = r.known && r.After.same(s.To)
		u := Undone{Result: r}
		if r.Edited && !s.InPlace {
			u.Left = s.left
		}
		emit(u)
		for _, other := range s.Also {
			emit(Undone{Result: Result{Path: other.Path}, SameAs: r.Path})
		}
	})
	if un.DryRun {
		return err
	}
	done := map[*Change]bool{}
	for _, s := range un.order {
		for _, c := range s.entries {
			done[c] = s.done
		}
	}
	for _, r := range rs.all() {
		left := slices.Clone(r.Files)[:0]
		for i := range r.Files {
			if !done[&r.Files[i]] {
				left = append(left, r.Files[i])
			}
		}
		if r.there && r.err == nil && (r.gone.N > 0 || len(left) < len(r.Files)) {
			r.Files = left
			err = errors.Join(err, r.save())
		}
	}
	return err
}

// add adds the step that takes an entry of a record back, if one of its names is asked for. It fails for a refused
// file.
func (un *undoing) add(r *Record, c *Change) (path string, err error) {
	var asked []text
	for _, name := range c.names() {
		if un.asked(r.path(name)) {
			asked = append(asked, name)
		}
	}
	if len(asked) == 0 {
		return "", nil
	}
	at := r.top.Target(r.path(asked[0]))
	for _, name := range asked {
		if un.Refuse == nil {
			break
		}
		if err, _ := un.Refuse(r.path(name), false); err != nil {
			return r.path(name), err
		}
	}
	st, err := at.Stat()
	id := fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // Dev is 32 bits wide on MIPS
	if err != nil {
		id = fileID{ino: uint64(len(un.order))} // on no device; the error comes when it is opened
	}
	s := un.steps[id]
	switch {
	case s == nil:
		//nolint:unconvert // as above
		s = &undoStep{
			Step:  Step{At: at, From: c.After.state(), To: c.Before.state(), shared: c.InPlace, recorded: true},
			links: int(st.Nlink),
		}
		un.steps[id] = s
		un.order = append(un.order, s)
		for _, other := range un.names[id] {
			s.also(other, id)
		}
	case s.From.same(c.After.state()) && s.To.same(c.Before.state()): // under another of its names
	case s.To.same(c.After.state()): // of an earlier run
		s.To = c.Before.state().with(s.To)
	case s.From.same(c.Before.state()): // of a later one
		s.From = c.After.state().with(s.From)
	default:
		return "", nil
	}
	s.entries = append(s.entries, c)
	s.between = append(s.between, c.After.state()) // a run was killed after it had noted the next step
	if c.Found != nil {
		s.between = append(s.between, c.Found.state())
	}
	for _, name := range c.names() {
		s.also(r.top.Target(r.path(name)), id)
	}
	return "", nil
}

// also adds another name of the file.
func (s *undoStep) also(name tree.Target, id fileID) {
	if name.Path == s.At.Path || slices.ContainsFunc(s.Also, func(t tree.Target) bool { return t.Path == name.Path }) {
		return
	}
	if st, err := name.Stat(); err == nil && (fileID{uint64(st.Dev), st.Ino}) == id { //nolint:unconvert // as above
		s.Also = append(s.Also, name)
	}
}

// walk looks for the records below an argument, and for the names of its files.
func (un *undoing) walk(ctx context.Context, rs *Records, h *home) error {
	root, err := tree.RootIn(rs.folder(filepath.Dir(h.real)).dir, filepath.Base(h.real), h.real)
	if err != nil {
		return err
	}
	un.roots = append(un.roots, root)
	if err := h.id.of(root); err != nil {
		return err
	}
	type seen struct {
		at tree.Target
		id fileID
	}
	return tree.WalkRoot(ctx, root, tree.Options{Jobs: un.Jobs}, func(f *tree.File) (s seen, keep bool) {
		if s.at = root.Target(f.Path); f.Err == nil && f.ELF() {
			s.id.dev, s.id.ino = f.ID()
			return s, true
		}
		return s, strings.HasSuffix(f.Path, recordSuffix)
	}, func(s seen) {
		if s.id != (fileID{}) {
			un.names[s.id] = append(un.names[s.id], s.at)
		} else if r := rs.inner(s.at); r != nil {
			h.records = append(h.records, r)
		}
	})
}

// inner returns the record that a file in a tree is; nil if it is none. Its directory is opened below the tree, even
// if somebody exchanges one on the way.
func (rs *Records) inner(at tree.Target) *Record {
	path, base := filepath.Split(at.Path)
	path = filepath.Clean(path)
	if rs.folders[path] == nil {
		root, rel := at.Below()
		dir, err := root.OpenDir(strings.TrimSuffix(strings.TrimSuffix(rel, base), "/"))
		if err != nil {
			return nil
		}
		rs.folders[path] = newFolder(dir)
	}
	var r *Record
	if tree := strings.TrimSuffix(base, recordSuffix); tree == "" {
		r = rs.ofFiles(path)
	} else {
		r = rs.ofTree(filepath.Join(path, tree))
	}
	if !r.there {
		return nil // it is no tree's record
	}
	return r
}
