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
	var trees []*undoTree
	for _, p := range paths {
		h, ok := rs.homes[p]
		if !ok {
			_, err := realPath(p)
			emit(Undone{Result: Result{Path: p, Err: cmp.Or(withoutPath(err), errNothingToUndo)}})
			continue
		}
		top := h.real
		if len(h.records) > 0 {
			top = h.records[0].root
		}
		i := slices.IndexFunc(trees, func(t *undoTree) bool { return t.path == top })
		if i < 0 {
			i = len(trees)
			trees = append(trees, &undoTree{path: top, rs: rs, steps: map[string]*undoStep{}})
		}
		trees[i].scopes = append(trees[i].scopes, scope{p, h})
	}
	for _, t := range trees {
		err := t.undo(ctx, u, emit)
		if stopped := (*tree.Stopped)(nil); errors.As(err, &stopped) {
			return err
		}
		if err != nil {
			emit(Undone{Result: Result{Path: t.path, Err: err}})
		}
	}
	return nil
}

// undoTree is the outermost tree with a record that some arguments are or are in; where
// there is none, an argument itself.
type undoTree struct {
	path   string
	rs     *Records
	root   *tree.Root
	scopes []scope
	steps  map[string]*undoStep // by path
	order  []string             // of steps
}

type scope struct {
	given string
	home
}

// undoStep is a step and the records that tell of its file.
type undoStep struct {
	Step
	in           map[*Record]bool
	linked, done bool // hard links outside the tree lead to the file; it was taken back
}

func (t *undoTree) undo(ctx context.Context, u Undoing, emit func(Undone)) (err error) {
	in := t.rs.shelves.at(filepath.Dir(t.path))
	if in.dir == nil {
		return errors.New("its directory cannot be opened")
	}
	if t.root, err = tree.RootIn(in.dir, filepath.Base(t.path), t.path); err != nil {
		return err
	}
	defer t.root.Close()
	if all := t.scopes[0].records; len(all) > 0 {
		if err := all[0].now.of(t.root); err != nil {
			return err
		}
	}
	links, inner, err := t.walk(ctx, u.Jobs)
	if err != nil {
		return err
	}
	var records []*Record
	for _, s := range t.scopes {
		records = append(records, s.records...)
	}
	for _, path := range inner {
		r, err := t.inner(path, u.Force)
		if err != nil {
			emit(Undone{Result: Result{Path: path, Err: err}})
		} else if r != nil {
			records = append(records, r)
		}
	}
	// A run notes in the record of the outermost tree that has one. So the record of an inner
	// tree is of an earlier time, and continues what the outer one begins.
	slices.SortFunc(records, func(a, b *Record) int { return strings.Compare(a.root, b.root) })
	records = slices.CompactFunc(records, func(a, b *Record) bool { return a.root == b.root })
	for _, r := range records {
		t.add(r)
	}
	for _, s := range t.scopes {
		if !slices.ContainsFunc(t.order, func(p string) bool { return below(p, s.real) }) {
			emit(Undone{Result: Result{Path: s.given, Err: cmp.Or(s.why, errNothingToUndo)}})
		}
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
		s.Force, s.Copy = u.Force, u.Copy || s.linked && !s.InPlace && !u.KeepLinks
		steps = append(steps, s.Step)
	}
	err = Apply(ctx, steps, u.Carrying, func(r Result) {
		s := t.steps[r.Path]
		s.done = r.Known && r.After == s.To
		emit(Undone{Result: r, Linked: s.linked && s.Copy && r.Edited})
		for _, other := range s.Also {
			emit(Undone{Result: Result{Path: other.Path}, SameAs: r.Path})
		}
	})
	if !u.DryRun {
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
func (t *undoTree) add(r *Record) {
	for i := range r.Files {
		c := &r.Files[i]
		path := r.path(c)
		if !t.within(path) {
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

// within reports whether a path is one of the arguments or is below one.
func (t *undoTree) within(path string) bool {
	return slices.ContainsFunc(t.scopes, func(s scope) bool { return below(path, s.real) })
}

// linkedFile is a file of several hard links, and those of them that are in the tree.
type linkedFile struct {
	names []string
	links int
}

// walk returns the files of several hard links, by each of their names, and the records that
// are in the tree and of something in one of the arguments.
func (t *undoTree) walk(ctx context.Context, jobs int) (links map[string]*linkedFile, records []string, err error) {
	type found struct {
		path, same string
		links      int
	}
	links = map[string]*linkedFile{}
	err = tree.WalkRoot(ctx, t.root, tree.Options{Jobs: jobs}, func(f *tree.File) (found, bool) {
		if f.Err == nil && f.ELF() && f.OtherLinks() > 0 {
			return found{f.Path, cmp.Or(f.SameAs, f.Path), f.OtherLinks() + 1}, true
		}
		return found{path: f.Path}, strings.HasSuffix(f.Path, recordSuffix)
	}, func(f found) {
		switch {
		case f.links == 0:
			if t.within(strings.TrimSuffix(f.path, recordSuffix)) {
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
func (t *undoTree) inner(path string, force bool) (*Record, error) {
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
	r, _ := s.of(strings.TrimSuffix(filepath.Base(path), recordSuffix), force)
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
