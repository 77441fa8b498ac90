package fixup

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/tree"
)

// Undoing says how changes are taken back.
type Undoing struct {
	Carrying
	// Copy edits a copy of each file. So is done with KeepLinks false where hard links
	// outside the tree lead to a file, unless the change was theirs too.
	Copy, KeepLinks bool
	// Force believes a record also of a copy of its tree, and takes a file back from
	// whatever state it is in.
	Force   bool
	Waiting func(tree string) // see OpenRecords
}

// Undone is what came of taking back the changes of one file, or of a path for which there
// was nothing to take back.
type Undone struct {
	Result
	SameAs string // the file is another name of this one, and nothing else is set
	Linked bool   // other links, outside the tree, keep what the file was
}

var errNothingToUndo = errors.New("there is nothing to undo: no record tells of it")

// Undo takes back what records tell of the files that paths lead to or that are below them:
// the records of the trees that they are in, and those of trees in them. What is taken back
// goes out of the record. A path of which no record tells anything has failed.
func Undo(ctx context.Context, paths []string, u Undoing, emit func(Undone)) error {
	rs, err := openRecords(ctx, paths, u.Waiting, func(s shelves, h *home) {
		h.records, h.why = s.lookUp(h.real, u.Force)
	})
	if err != nil {
		return err
	}
	defer rs.Close()
	done := map[string]bool{}
	for _, p := range paths {
		h, ok := rs.homes[p]
		if !ok {
			_, err := realPath(p)
			emit(Undone{Result: Result{Path: p, Err: cmp.Or(withoutPath(err), errNothingToUndo)}})
			continue
		}
		within := func(other home) bool { return other.real != "" && other.real != h.real && below(h.real, other.real) }
		if done[h.real] || slices.ContainsFunc(paths, func(other string) bool { return within(rs.homes[other]) }) {
			continue // it is taken back with that
		}
		done[h.real] = true
		err := (&undoing{Undoing: u, rs: rs, home: h, steps: map[string]*undoStep{}}).undo(ctx, emit)
		if stopped := (*tree.Stopped)(nil); errors.As(err, &stopped) {
			return err
		}
		if err != nil {
			emit(Undone{Result: Result{Path: p, Err: err}})
		}
	}
	return nil
}

// undoing is what is done for one path.
type undoing struct {
	Undoing
	rs *Records
	home
	root  *tree.Root           // the outermost tree with a record that home is or is in; where there is none, home
	steps map[string]*undoStep // by path
	order []string             // of steps
}

// undoStep is a step and the records that tell of its file.
type undoStep struct {
	Step
	in           map[*Record]bool
	linked, done bool // hard links outside the tree lead to the file; it was taken back
}

func (t *undoing) undo(ctx context.Context, emit func(Undone)) (err error) {
	top, id := t.real, t.id
	if len(t.records) > 0 {
		top, id = t.records[0].root, t.records[0].now
	}
	in := t.rs.shelves.at(filepath.Dir(top))
	if in.dir == nil {
		return errors.New("its directory cannot be opened")
	}
	if t.root, err = tree.RootIn(in.dir, filepath.Base(top), top); err != nil {
		return err
	}
	defer t.root.Close()
	if err := id.of(t.root); err != nil {
		return err
	}
	links, inner, err := t.walk(ctx)
	if err != nil {
		return err
	}
	records := t.records
	for _, path := range inner {
		r, err := t.inner(path)
		if err != nil {
			emit(Undone{Result: Result{Path: path, Err: err}})
		} else if r != nil {
			records = append(records, r)
		}
	}
	// A run notes in the record of the outermost tree that has one. So the record of an inner
	// tree is of an earlier time, and continues what the outer one begins.
	slices.SortFunc(records, func(a, b *Record) int { return strings.Compare(a.root, b.root) })
	records = slices.Compact(records)
	for _, r := range records {
		t.add(r)
	}
	if len(t.order) == 0 {
		return cmp.Or(t.why, errNothingToUndo)
	}

	var steps []Step
	for _, path := range t.order {
		s := t.steps[path]
		if l := links[path]; l != nil {
			for _, other := range l.names {
				if other != path {
					s.Also = append(s.Also, t.root.Target(other))
				}
			}
			s.linked = l.links > len(l.names)
		}
		s.Force, s.Copy = t.Force, t.Copy || s.linked && !s.InPlace && !t.KeepLinks
		steps = append(steps, s.Step)
	}
	err = Apply(ctx, steps, t.Carrying, func(r Result) {
		s := t.steps[r.Path]
		s.done = r.Known && r.After == s.To
		emit(Undone{Result: r, Linked: s.linked && s.Copy && r.Edited})
		for _, other := range s.Also {
			emit(Undone{Result: Result{Path: other.Path}, SameAs: r.Path})
		}
	})
	if !t.DryRun {
		for _, r := range records {
			err = errors.Join(err, r.settle(slices.DeleteFunc(slices.Clone(r.Files), func(c Change) bool {
				s := t.steps[r.path(&c)]
				return s != nil && s.in[r] && s.done
			})))
		}
	}
	return err
}

// path returns that of a change's file.
func (r *Record) path(c *Change) string {
	if c.Path == "" {
		return r.root
	}
	return r.root + "/" + string(c.Path)
}

// add adds the steps that take back what a record tells.
func (t *undoing) add(r *Record) {
	for i := range r.Files {
		c := &r.Files[i]
		path := r.path(c)
		if !below(path, t.real) {
			continue
		}
		if s := t.steps[path]; s == nil {
			t.steps[path] = &undoStep{Step: Step{At: t.root.Target(path), From: c.After.state(), To: c.Before.state(), InPlace: c.InPlace}, in: map[*Record]bool{r: true}}
			t.order = append(t.order, path)
		} else if s.To == c.After.state() {
			s.To, s.in[r] = c.Before.state(), true
		}
	}
}

// linkedFile is a file of several hard links, and those of them that are found.
type linkedFile struct {
	names []string
	links int
}

// walk returns the files of several hard links, by each of their names, and the records of what is in home.
func (t *undoing) walk(ctx context.Context) (links map[string]*linkedFile, records []string, err error) {
	type found struct {
		path, same string
		links      int
	}
	links = map[string]*linkedFile{}
	err = tree.WalkRoot(ctx, t.root, tree.Options{Jobs: t.Jobs}, func(f *tree.File) (found, bool) {
		if f.Err == nil && f.ELF() && f.OtherLinks() > 0 {
			return found{f.Path, cmp.Or(f.SameAs, f.Path), f.OtherLinks() + 1}, true
		}
		return found{path: f.Path}, strings.HasSuffix(f.Path, recordSuffix)
	}, func(f found) {
		switch {
		case f.links == 0:
			if below(strings.TrimSuffix(f.path, recordSuffix), t.real) {
				records = append(records, f.path)
			}
			return
		case links[f.same] == nil:
			links[f.same] = &linkedFile{links: f.links}
		}
		l := links[f.same]
		l.names = append(l.names, f.path)
		links[f.path] = l
	})
	return links, records, err
}

var errInUse = errors.New("another run uses this record: wait for its end")

// inner reads a record in the tree; nil where it is not believed.
func (t *undoing) inner(path string) (*Record, error) {
	in, _ := filepath.Split(path)
	s := t.rs.shelves[in] // with a slash at its end: what is opened below the tree, and not by its path
	if s == nil {
		target := t.root.Target(path)
		_, rel := target.Below()
		rel, _ = filepath.Split(rel)
		dir, err := t.root.OpenDir(strings.TrimSuffix(rel, "/"))
		if err != nil {
			return nil, err
		}
		s = newShelf(dir, filepath.Dir(path))
		t.rs.shelves[in] = s
	}
	r, _ := s.of(strings.TrimSuffix(filepath.Base(path), recordSuffix), t.Force)
	if r == nil {
		return nil, nil
	}
	return r, t.rs.locked(r, func(f *os.File) error {
		if !tree.TryLock(int(f.Fd())) {
			return errInUse
		}
		return nil
	})
}
