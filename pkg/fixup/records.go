package fixup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/tree"
)

// Records are the records for some paths, locked against other runs.
type Records struct {
	// Replaced are the overwritten records of other trees, which had the names of these.
	Replaced []string

	force   bool               // see Undoing
	folders map[string]*folder // by path
	looked  map[string]*Record // by the directory, with a slash for single files in it
	homes   map[string]home    // by argument
	locks   []*os.File
}

// home is where an argument is.
type home struct {
	real    string   // absolute and free of symbolic links
	isDir   bool     // a directory is there
	id      identity // and which
	records []*Record
}

// folder is a directory in which records were looked for.
type folder struct {
	dir     *os.File // nil if it cannot be opened
	renamed func() map[identity]string
}

// OpenRecords returns the records for the files below some paths: the record of the outermost tree that has one, else
// a new one. It waits for other runs that use one of them, and calls waiting before.
func OpenRecords(ctx context.Context, paths []string, waiting func(tree string)) (*Records, error) {
	rs := &Records{}
	err := rs.open(ctx, paths, waiting, func(h *home) error {
		for _, r := range rs.above(h) {
			if r.there {
				h.records = []*Record{r}
				return nil
			}
		}
		if h.isDir {
			h.records = []*Record{rs.ofTree(h.real)}
		} else {
			h.records = []*Record{rs.ofFiles(filepath.Dir(h.real))}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range rs.all() {
		r.load(ctx)
	}
	return rs, nil
}

// open finds records, and takes their locks.
func (rs *Records) open(ctx context.Context, paths []string, waiting func(tree string), find func(*home) error) error {
	rs.folders, rs.looked, rs.homes = map[string]*folder{}, map[string]*Record{}, map[string]home{}
	for _, p := range paths {
		real, err := realPath(p)
		if err != nil {
			continue // the caller says so
		}
		h := home{real: real}
		if in := rs.folder(filepath.Dir(real)); in.dir != nil {
			h.id, h.isDir, _ = identify(in.dir, filepath.Base(real))
		}
		if err := find(&h); err != nil {
			rs.Close()
			return err
		}
		rs.homes[p] = h
	}
	var before *Record
	for _, r := range rs.all() {
		if r.in == nil || before != nil && before.root == r.root {
			continue
		}
		before = r
		fd, err := regular.OpenBelow(int(r.in.Fd()), r.name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			continue // a directory that may not be read is not walked either
		}
		rs.locks = append(rs.locks, os.NewFile(uintptr(fd), r.root)) // its lock (flock(2)) is the record's
		if err := regular.Lock(ctx, fd, 0, func() { waiting(r.root) }); err != nil {
			rs.Close()
			return fmt.Errorf("waiting for another run on %s: %w", r.root, err)
		}
	}
	return nil
}

// realPath returns the absolute path, free of symbolic links, that a path leads to. A path that is a link itself is
// refused, as in a walk that edits.
func realPath(p string) (string, error) {
	info, err := os.Lstat(tree.Unslashed(p))
	switch {
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink != 0:
		return "", tree.ErrSymlink
	case strings.HasSuffix(p, "/") && !info.IsDir():
		return "", unix.ENOTDIR
	}
	return regular.Real(p)
}

// all returns the records, once each, in the order in which every run takes their locks.
func (rs *Records) all() (all []*Record) {
	for _, h := range rs.homes {
		all = append(all, h.records...)
	}
	slices.SortFunc(all, func(a, b *Record) int {
		return cmp.Or(strings.Compare(a.root, b.root), strings.Compare(a.base, b.base))
	})
	return slices.Compact(all)
}

// Close gives the locks back.
func (rs *Records) Close() {
	for _, r := range rs.looked {
		if r.top != nil {
			r.top.Close()
		}
	}
	for _, f := range rs.locks {
		f.Close()
	}
	for _, f := range rs.folders {
		if f.dir != nil {
			f.dir.Close()
		}
	}
}

// add notes steps, and writes the records.
func (rs *Records) add(steps []Step) (by map[*Record][]recorded, err error) {
	by = map[*Record][]recorded{}
	known := map[*tree.Root]bool{}
	for i := range steps {
		s := &steps[i]
		at := map[*Record]int{} // in by, of this step
		for _, target := range append([]tree.Target{s.At}, s.Also...) {
			root, rel := target.Below()
			h := rs.homes[root.Path()]
			if !known[root] {
				// The walked directory is the one that was looked up, and not another one with its name.
				if err := h.id.of(root); err != nil {
					return nil, fmt.Errorf("the record for --undo of %s: %w", root.Path(), err)
				}
				known[root] = true
			}
			r := h.records[0]
			name := text(strings.Trim(strings.TrimPrefix(h.real, r.root)+"/"+rel, "/"))
			if n, again := at[r]; again {
				c := &by[r][n].Change
				c.Also = append(c.Also, name)
				continue
			}
			c := Change{Path: name, Before: snapshot(s.From), After: snapshot(s.To), InPlace: s.shared}
			if st, err := target.Stat(); err == nil {
				c.Inode = st.Ino
			}
			at[r] = len(by[r])
			by[r] = append(by[r], recorded{s, c})
		}
	}
	for r, steps := range by {
		if r.others {
			rs.Replaced = append(rs.Replaced, r.file())
		}
		r.old, r.Files = r.Files, noted(r.Files, steps)
		if err := r.save(); err != nil {
			return nil, fmt.Errorf("%w (--no-record does without)", err)
		}
	}
	return by, nil
}

// Carry notes steps in the records, if there are any, and carries them out: see [Apply]. If err is set, nothing was
// changed. stopped, which may be a *[tree.Stopped], says why not everything was done.
func (rs *Records) Carry(ctx context.Context, steps []Step, c Carrying, emit func(Result)) (stopped, err error) {
	var in map[*Record][]recorded
	if rs != nil && !c.DryRun {
		if in, err = rs.add(steps); err != nil {
			return nil, err
		}
	}
	done := map[string]Result{}
	stopped = Apply(ctx, steps, c, func(r Result) {
		done[r.Path] = r
		emit(r)
	})
	for r, steps := range in {
		err := r.taken(steps, func(s *Step) bool { return done[s.At.Path].known && done[s.At.Path].After.same(s.To) })
		stopped = errors.Join(stopped, err)
	}
	return stopped, nil
}

// taken keeps only the steps in a record that were taken.
func (r *Record) taken(steps []recorded, was func(*Step) bool) error {
	done := slices.DeleteFunc(slices.Clone(steps), func(s recorded) bool { return !was(s.Step) })
	again := len(done) < len(steps)
	back := map[text]bool{} // what is as before all runs
	for i := range done {
		s := &done[i]
		back[s.Path] = true
		if !s.Step.InPlace {
			target := r.top.Target(r.path(s.Path))
			if st, err := target.Stat(); err == nil {
				s.Inode, again = st.Ino, true
			}
		}
	}
	isBack := func(c Change) bool { return back[c.Path] && c.idle() }
	if !again && !slices.ContainsFunc(r.Files, isBack) {
		return nil
	}
	r.Files = slices.DeleteFunc(noted(r.old, done), isBack)
	return r.save()
}

func (rs *Records) folder(path string) *folder {
	f := rs.folders[path]
	if f == nil {
		dir, err := regular.OpenDir(path)
		if err != nil {
			dir = nil
		}
		f = newFolder(dir)
		rs.folders[path] = f
	}
	return f
}

func newFolder(dir *os.File) *folder {
	return &folder{dir, sync.OnceValue(func() map[identity]string {
		by := map[identity]string{}
		names, _ := dir.Readdirnames(-1)
		slices.Sort(names)
		for _, name := range names {
			if strings.HasSuffix(name, recordSuffix) && name != recordSuffix {
				if r, err := readRecord(dir, name, nil); err == nil && by[r.Tree] == "" {
					by[r.Tree] = name
				}
			}
		}
		return by
	})}
}

// ofTree returns the record of a tree, or else one that can be written. An existing record may have the tree's former
// name.
func (rs *Records) ofTree(root string) *Record {
	name := filepath.Base(root)
	return rs.record(root, &Record{Version: 1, root: root, name: name, base: name + recordSuffix}, filepath.Dir(root))
}

// ofFiles returns the record of single files in a directory.
func (rs *Records) ofFiles(dir string) *Record {
	return rs.record(dir+"/", &Record{Version: 1, root: dir, name: ".", base: recordSuffix}, dir)
}

// record returns the record of a key, which it looks for in a directory. If there was none, that is r.
func (rs *Records) record(key string, r *Record, at string) *Record {
	if known := rs.looked[key]; known != nil {
		return known
	}
	rs.looked[key] = r
	f, single := rs.folder(at), r.name == "."
	switch {
	case key == "/":
		r.err = errors.New("nothing is beside it")
		return r
	case f.dir == nil:
		r.err = errors.New("its directory cannot be opened")
		return r
	}
	r.in = f.dir
	if r.now, _, r.err = identify(r.in, r.name); r.err != nil {
		return r
	}
	head, err := readRecord(r.in, r.base, nil)
	switch {
	case err == nil && head.Tree == r.now:
		r.there = true
		return r
	case !single && f.renamed()[r.now] != "":
		r.base, r.there = f.renamed()[r.now], true
	case err == nil:
		r.others, r.there = !rs.force, rs.force
	case errors.Is(err, fs.ErrNotExist):
		r.err = distrustDirectory(r.in)
	default:
		r.refused = true
		r.err = notBelieved(err)
	}
	return r
}

// above returns the records that may have entries for an argument. They are those of the trees that it is or is in,
// the outermost first, and that of single files in its directory.
func (rs *Records) above(h *home) (all []*Record) {
	at := h.real
	if !h.isDir {
		at = filepath.Dir(at)
		all = append(all, rs.ofFiles(at))
	}
	for ; at != "/"; at = filepath.Dir(at) {
		all = append(all, rs.ofTree(at))
	}
	slices.Reverse(all)
	return all
}

// why says why an apparent record is not believed; nil if there is none.
func (r *Record) why() error {
	switch {
	case r.others:
		return fmt.Errorf("%s belongs to another directory, or to a copy of this one: --force uses it anyway", r.file())
	case r.refused:
		return fmt.Errorf("%s: %w", r.file(), r.err)
	}
	return nil
}
