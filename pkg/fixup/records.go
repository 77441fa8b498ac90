package fixup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/pkg/tree"
)

// Records are the records of the trees that a run is about, locked against other runs.
type Records struct {
	// Replaced are the records of other trees, which had the names of these, that were written over.
	Replaced []string

	shelves shelves
	locks   []*os.File
	homes   map[string]home // by argument
}

// home is where an argument is.
type home struct {
	real string   // absolute and free of symbolic links
	id   identity // what is there
	// records are those of the trees that it is or is in, the outermost first, and why says
	// why what seem to be others are not believed.
	records []*Record
	why     error
}

// OpenRecords returns the records for the files below some paths, which may be in trees that
// have a record: then it is that of the outermost one. It waits for other runs that use one
// of them, after having told waiting so.
func OpenRecords(ctx context.Context, paths []string, waiting func(tree string)) (*Records, error) {
	return openRecords(ctx, paths, waiting, func(s shelves, h *home) {
		h.records, _ = s.lookUp(h.real, false)
		if len(h.records) == 0 {
			h.records = []*Record{s.fresh(h)}
		}
		h.records = h.records[:1]
	})
}

// openRecords returns those records, locked, that lookUp finds.
func openRecords(ctx context.Context, paths []string, waiting func(tree string), lookUp func(shelves, *home)) (*Records, error) {
	const tries = 20 // others make and remove records all the time
	for range tries {
		rs := findRecords(paths, lookUp)
		if err := rs.lock(ctx, waiting); err != nil {
			rs.Close()
			return nil, err
		}
		now := findRecords(paths, lookUp) // and not what they were before another run gave the lock back
		same := func(a, b *Record) bool { return a.root == b.root }
		if maps.EqualFunc(rs.homes, now.homes, func(a, b home) bool { return slices.EqualFunc(a.records, b.records, same) }) {
			now.locks, rs.locks = rs.locks, nil
			rs.Close()
			return now, nil
		}
		rs.Close()
		now.Close()
	}
	return nil, errors.New("other runs use the records for --undo all the time")
}

func findRecords(paths []string, lookUp func(shelves, *home)) *Records {
	rs := &Records{shelves: shelves{}, homes: map[string]home{}}
	for _, p := range paths {
		real, err := realPath(p)
		if err != nil {
			continue // the caller says so
		}
		h := home{real: real}
		if dir := rs.shelves.at(filepath.Dir(real)).dir; dir != nil {
			h.id, _, _ = identify(dir, filepath.Base(real))
		}
		lookUp(rs.shelves, &h)
		rs.homes[p] = h
	}
	return rs
}

// realPath returns the absolute path, free of symbolic links, that a path leads to. One that is
// a link itself is refused, as a walk that edits refuses it.
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
	return sysroot.Realpath(p)
}

// lock takes the locks of all records, in the order in which every run takes them.
func (rs *Records) lock(ctx context.Context, waiting func(tree string)) error {
	by := map[string]*Record{} // by lock
	for _, h := range rs.homes {
		for _, r := range h.records {
			by[r.lockPath()] = r
		}
	}
	for _, path := range slices.Sorted(maps.Keys(by)) {
		err := rs.locked(by[path], func(f *os.File) error {
			if err := tree.Lock(ctx, int(f.Fd()), func() { waiting(path) }); err != nil {
				return fmt.Errorf("waiting for another run on %s: %w", path, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lockPath is the directory whose lock (flock(2)) is that of the record: its tree or, where
// that is a single file, the one that it is in.
func (r *Record) lockPath() string {
	if r.dir != nil {
		if _, isDir, err := identify(r.dir, r.name()); err == nil && !isDir {
			return filepath.Dir(r.root)
		}
	}
	return r.root
}

// locked takes the lock of a record with take, unless it is held already.
func (rs *Records) locked(r *Record, take func(*os.File) error) error {
	if r.dir == nil {
		return nil
	}
	name := r.name()
	if r.lockPath() != r.root {
		name = "."
	}
	fd, err := unix.Openat(int(r.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // one that may not be read is not walked either
	}
	f := os.NewFile(uintptr(fd), r.lockPath())
	info, err := f.Stat()
	for _, held := range rs.locks {
		if other, failed := held.Stat(); err == nil && failed == nil && os.SameFile(info, other) {
			return f.Close()
		}
	}
	if err == nil {
		err = take(f)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	rs.locks = append(rs.locks, f)
	return nil
}

// Close gives the locks back.
func (rs *Records) Close() {
	for _, f := range rs.locks {
		f.Close()
	}
	rs.shelves.close()
}

// add notes steps, and writes the records.
func (rs *Records) add(steps []Step) (by map[*Record][]recorded, err error) {
	by = map[*Record][]recorded{}
	known := map[*tree.Root]bool{}
	for i := range steps {
		root, rel := steps[i].At.Below()
		h := rs.homes[root.Path()]
		if !known[root] {
			// What was walked is what was looked up, and not another one that had its name.
			if err := h.id.of(root); err != nil {
				return nil, fmt.Errorf("the record for --undo of %s: %w", root.Path(), err)
			}
			known[root] = true
		}
		r := h.records[0]
		by[r] = append(by[r], recorded{&steps[i], strings.Trim(strings.TrimPrefix(h.real, r.root)+"/"+rel, "/")})
	}
	for r, steps := range by {
		if r.replaces {
			rs.Replaced = append(rs.Replaced, r.File())
		}
		r.old, r.Files = r.Files, noted(r.Files, steps)
		if err := r.save(); err != nil {
			return nil, fmt.Errorf("%w (--no-record does without)", err)
		}
	}
	return by, nil
}

// shelves are directories that were looked at for records, by path.
type shelves map[string]*shelf

// shelf is what one of them has.
type shelf struct {
	dir     *os.File // nil where there is none
	path    string
	records []*Record
	refused map[string]error // by the name of what was read: why it is not believed, or nil
}

func (s shelves) close() {
	for _, shelf := range s {
		if shelf.dir != nil {
			shelf.dir.Close()
		}
	}
}

func (s shelves) at(path string) *shelf {
	if s[path] == nil {
		dir, err := plainfile.OpenDir(path)
		if err != nil {
			dir = nil
		}
		s[path] = newShelf(dir, path)
	}
	return s[path]
}

// newShelf reads the records in an open directory.
func newShelf(dir *os.File, path string) *shelf {
	s := &shelf{dir: dir, path: path, refused: map[string]error{}}
	if dir == nil {
		return s
	}
	names, _ := dir.Readdirnames(-1)
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, recordSuffix) {
			s.read(name)
		}
	}
	return s
}

// read reads a record, once.
func (s *shelf) read(name string) {
	if _, done := s.refused[name]; done {
		return
	}
	r, err := readRecord(s.dir, name)
	switch {
	case err == nil:
		s.records = append(s.records, r)
	case !errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("it is not believed: %w", withoutPath(err))
	default:
		err = nil
	}
	s.refused[name] = err
}

// withoutPath is what an error says of a file that the message names anyway.
func withoutPath(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// of returns the record of a tree in the directory, whatever the record is called: a tree may
// have been renamed. With force it is the one of the tree's name, if there is no other. Nil
// where there is none; why says why what seems to be it is not.
func (s *shelf) of(name string, force bool) (r *Record, why error) {
	if s.dir == nil {
		return nil, nil
	}
	id, _, err := identify(s.dir, name)
	if err != nil {
		return nil, err
	}
	s.read(name + recordSuffix) // which a directory that cannot be listed has not shown
	var named *Record
	for _, other := range s.records {
		if other.base == name+recordSuffix {
			named = other
		}
		if other.Tree == id && (r == nil || other == named) {
			r = other
		}
	}
	switch {
	case r != nil:
	case named != nil && force:
		r = named
	case named != nil:
		return nil, fmt.Errorf("%s is the record of another directory or file, or of a copy of this one: --force believes it", filepath.Join(s.path, named.base))
	case s.refused[name+recordSuffix] != nil:
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.path, name+recordSuffix), s.refused[name+recordSuffix])
	default:
		return nil, nil
	}
	r.root, r.now = filepath.Join(s.path, name), id
	return r, nil
}

// lookUp returns the records of the trees that a path, which is free of links, is or is in,
// the outermost first, and why those are not believed that seem to be some.
func (s shelves) lookUp(path string, force bool) (all []*Record, why error) {
	var reasons []error
	for at := path; at != "/"; at = filepath.Dir(at) {
		r, err := s.at(filepath.Dir(at)).of(filepath.Base(at), force)
		if r != nil {
			all = append(all, r)
		}
		if err != nil {
			reasons = append(reasons, err)
		}
	}
	slices.Reverse(all)
	return all, errors.Join(reasons...)
}

// fresh returns the record of a tree that has none.
func (s shelves) fresh(h *home) *Record {
	shelf := s.at(filepath.Dir(h.real))
	r := &Record{Version: 1, dir: shelf.dir, base: filepath.Base(h.real) + recordSuffix, root: h.real, now: h.id}
	switch {
	case h.real == "/":
		r.err = errors.New("nothing is beside it")
	case shelf.dir == nil:
		r.err = errors.New("its directory cannot be opened")
	case shelf.refused[r.base] != nil:
		r.err = shelf.refused[r.base]
	default:
		r.err = distrustDirectory(shelf.dir)
		r.replaces = slices.ContainsFunc(shelf.records, func(other *Record) bool { return other.base == r.base })
	}
	return r
}
