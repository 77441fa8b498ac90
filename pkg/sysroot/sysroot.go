// Package sysroot reads a directory as the root of a system: a path in it, and
// every symbolic link on the way, is followed as a process would that had been
// chrooted there. So a container's image, a mounted disk or a tree made by a test
// is read without the machine's own files getting into the answer.
package sysroot

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/regular"
)

// Root is a directory that stands for "/". The zero value is the machine's own root.
type Root struct {
	// Dir is the directory's path on this machine; "" and "/" are the machine's own root.
	Dir string

	top *os.File // the directory itself, whatever Dir leads to by now; nil where it is opened by Dir each time
}

// Open returns the root that a directory is, which stays open. Symbolic links in its path are followed now, and not
// again: who exchanges one of the path's names afterwards exchanges nothing for us.
func Open(dir string) (Root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Root{}, err
	}
	r := Root{Dir: abs}
	if !r.IsHost() {
		r.top, err = regular.OpenDir(dir)
	}
	return r, err
}

// IsHost reports whether the root is the machine's own.
func (r Root) IsHost() bool { return r.Dir == "" || filepath.Clean(r.Dir) == "/" }

// Path returns where name is on this machine, without following any link:
// for messages, and for names whose directory is already resolved.
func (r Root) Path(name string) string {
	if r.IsHost() {
		return path.Clean("/" + name)
	}
	return filepath.Join(r.Dir, path.Clean("/"+name))
}

// Resolve follows every symbolic link of name and returns the path, inside the
// root, at which it ends. ".." does not lead out of the root. The error is a
// *fs.PathError that names the path as seen from inside.
func (r Root) Resolve(name string) (string, error) { return r.resolve(name, func(string) {}) }

// Steps returns every directory and every link that name leads through, and the
// file itself at last: who can change one of them decides what name leads to.
func (r Root) Steps(name string) ([]string, error) {
	steps := []string{"/"}
	if _, err := r.resolve(name, func(step string) { steps = append(steps, step) }); err != nil {
		return nil, err
	}
	return steps, nil
}

func (r Root) resolve(name string, step func(string)) (string, error) {
	at, _, err := regular.Follow(name, func(p string) (string, string) { return "", p },
		func(p string) (mode uint32, target string, err error) {
			if mode, target, err = r.lstat(p); err == nil {
				step(p)
			}
			return mode, target, err
		})
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return at, nil
}

// lstat is [regular.Lstat] for a path that [regular.Follow] has come to.
func (r Root) lstat(at string) (mode uint32, target string, err error) {
	if r.IsHost() {
		return regular.Lstat(at)
	}
	f, err := r.below(at, unix.O_PATH)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		b := make([]byte, unix.PathMax)
		var n int
		n, err = unix.Readlinkat(int(f.Fd()), "", b)
		target = string(b[:max(n, 0)])
	}
	return st.Mode, target, err
}

// Outside returns the path on this machine of what name leads to inside the root: this machine's own links
// lead there too.
func (r Root) Outside(name string) (string, error) {
	at, err := r.Resolve(name)
	if err != nil || r.IsHost() {
		return path.Clean(name), err
	}
	return r.Path(at), nil
}

// inside turns an error about a path on this machine into one about the path inside.
func (r Root) inside(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open opens a regular file of the system for reading.
func (r Root) Open(name string) (*os.File, error) {
	at, err := r.Resolve(name)
	if err != nil {
		return nil, err
	}
	dir, err := r.below(path.Dir(at), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, r.inside("open", name, err)
	}
	defer dir.Close()
	f, _, err := regular.OpenIn(dir, path.Base(at))
	return f, r.inside("open", name, err)
}

// below opens what a path leads to that was without links when it was resolved: who owns the tree may have put a link
// that leads out of it in a directory's place since.
func (r Root) below(at string, flags int) (*os.File, error) {
	top := r.top
	if top == nil {
		var err error
		if top, err = regular.OpenDir(r.Path("/")); err != nil {
			return nil, err
		}
		defer top.Close()
	}
	fd, err := regular.OpenBelow(int(top.Fd()), strings.Trim(at, "/"), flags)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), r.Path(at)), nil
}

// ReadFile reads a regular file of at most limit bytes.
func (r Root) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	return regular.ReadAll(f, name, limit)
}

// Stat describes what name leads to.
func (r Root) Stat(name string) (fs.FileInfo, error) {
	at, err := r.Resolve(name)
	if err != nil {
		return nil, err
	}
	return r.Lstat(at)
}

// Exists reports whether there is a file of a name, links followed.
func (r Root) Exists(name string) bool {
	_, err := r.Stat(name)
	return err == nil
}

// Lstat describes what has a path that leads through no link: one that Resolve or Steps returned.
func (r Root) Lstat(at string) (fs.FileInfo, error) {
	if r.IsHost() {
		info, err := os.Lstat(at)
		return info, r.inside("stat", at, err)
	}
	f, err := r.below(at, unix.O_PATH)
	if err != nil {
		return nil, r.inside("stat", at, err)
	}
	defer f.Close()
	info, err := f.Stat()
	return info, r.inside("stat", at, err)
}

// Readlink returns what the link at a path leads to, whose directory's links are followed; the error is unix.EINVAL
// where it is no link.
func (r Root) Readlink(name string) (string, error) {
	dir, err := r.Resolve(path.Dir(name))
	if err != nil {
		return "", err
	}
	mode, target, err := r.lstat(path.Join(dir, path.Base(name)))
	if err == nil && mode&unix.S_IFMT != unix.S_IFLNK {
		err = &fs.PathError{Op: "readlink", Path: name, Err: unix.EINVAL}
	}
	return target, err
}

// Getxattr reads an extended attribute, as getxattr(2) does, of what has such a path and is no link.
func (r Root) Getxattr(at, name string, b []byte) (int, error) {
	if r.IsHost() {
		return unix.Lgetxattr(at, name, b)
	}
	f, err := r.below(at, unix.O_PATH)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return unix.Getxattr(regular.ProcPath(int(f.Fd())), name, b) // fgetxattr(2) refuses O_PATH
}

// OpenRoot opens a directory of the system, in which work goes on whatever its path leads to by then, and returns its path
// without links.
func (r Root) OpenRoot(name string) (in *os.Root, at string, err error) {
	if at, err = r.Resolve(name); err != nil {
		return nil, "", err
	}
	f, err := r.below(at, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, "", r.inside("open", name, err)
	}
	defer f.Close()
	in, err = regular.RootOf(f, r.Path(at), os.OpenRoot)
	return in, at, err
}

// ReadDir lists a directory, sorted by name.
func (r Root) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := r.Resolve(name)
	if err != nil {
		return nil, err
	}
	f, err := r.below(at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, r.inside("open", name, err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, r.inside("open", name, err)
}

// ErrTooMany means that a pattern leads to more names than are looked at: by links in a loop each star finds more of
// the same.
var ErrTooMany = errors.New("more names than are looked at")

// MostNames is how many names are looked at for the patterns of one purpose. A large system's /usr/lib has some 10,000.
const MostNames = 1 << 16

// Glob returns the paths that match a pattern of path.Match, sorted bytewise, as glob(3) does in the C locale: "*" and
// "?" do not match a leading period. It looks at [MostNames]; past them the error is [ErrTooMany].
func (r Root) Glob(pattern string) ([]string, error) {
	left := MostNames
	return r.GlobWithin(pattern, &left)
}

// GlobWithin is Glob for one of many patterns: it takes the names that it looks at away from those that are left.
func (r Root) GlobWithin(pattern string, left *int) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	found := []string{"/"}
	for _, c := range strings.Split(path.Clean("/"+pattern), "/") {
		if c == "" {
			continue
		}
		var next []string
		for _, dir := range found {
			if *left--; *left < 0 {
				return nil, ErrTooMany
			}
			if !strings.ContainsAny(c, `*?[\`) {
				if _, err := r.Stat(path.Join(dir, c)); err == nil {
					next = append(next, path.Join(dir, c))
				}
				continue
			}
			entries, err := r.ReadDir(dir)
			if err != nil {
				continue
			}
			if *left -= len(entries); *left < 0 {
				return nil, ErrTooMany
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(c, ".") {
					continue
				}
				if ok, err := path.Match(c, e.Name()); ok && err == nil {
					next = append(next, path.Join(dir, e.Name()))
				}
			}
		}
		found = next
	}
	slices.Sort(found)
	return found, nil
}
