package tree

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// A Root is an argument of a walk: a directory, or a file and the directory that it is in. It is opened once, and
// everything below it is opened from there. So exchanging its name afterwards changes nothing for us.
type Root struct {
	path   string // as reports name it
	name   string // of a file, in dir; "" for a directory
	follow bool   // it may be a symbolic link
	refuse Refuse // nil: nothing is refused

	mu  sync.Mutex
	dir *dir // nil until it is opened
	// the absolute path of the directory, free of links, where some of what is below it may be refused; else ""
	real string
}

// newRoot returns the root for an argument. It opens nothing yet.
func newRoot(path string, file, follow bool, refuse Refuse) *Root {
	r := &Root{path: path, follow: follow, refuse: refuse}
	if file {
		_, r.name = filepath.Split(path)
	}
	return r
}

// Unslashed returns a path without trailing slashes. With one, the kernel follows a link whatever the flags say
// (path_resolution(7)).
func Unslashed(path string) string {
	if short := strings.TrimRight(path, "/"); short != "" {
		return short
	}
	return path
}

// RootIn returns the root for a directory or file called name in an open directory. path is what reports call it. A
// symbolic link is refused.
func RootIn(in *os.File, name, path string) (*Root, error) {
	fd, err := regular.Descriptor(int(in.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	r := &Root{path: path}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		r.name = name
		fd, err = regular.Descriptor(int(in.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY)
	case unix.S_IFDIR:
		fd, err = regular.Descriptor(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	case unix.S_IFLNK:
		return nil, ErrSymlink
	default:
		return nil, errNotFile
	}
	if err != nil {
		return nil, err
	}
	r.dir = newDir(fd)
	return r, nil
}

// Path returns the path of the root, as reports name it.
func (r *Root) Path() string { return r.path }

// ID returns the device and inode numbers of the root's directory or file.
func (r *Root) ID() (dev, ino uint64, err error) {
	d, err := r.open()
	if err != nil {
		return 0, 0, err
	}
	defer d.release()
	var st unix.Stat_t
	if r.name == "" {
		err = unix.Fstat(d.fd, &st)
	} else {
		err = unix.Fstatat(d.fd, r.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return uint64(st.Dev), st.Ino, err //nolint:unconvert // Dev is 32 bits wide on MIPS
}

// Close closes the root. What was opened below it stays open.
func (r *Root) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir != nil {
		r.dir.release()
		r.dir = nil
	}
}

// open returns the root's directory, or the one that its file is in, with one more reference.
func (r *Root) open() (*dir, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir == nil {
		path, flags := r.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW
		switch {
		case r.name != "":
			if path = strings.TrimSuffix(path, r.name); path == "" {
				path = "."
			}
			flags = unix.O_PATH | unix.O_DIRECTORY // it need not be readable
		case r.follow:
			flags &^= unix.O_NOFOLLOW
		default:
			path = Unslashed(path)
		}
		fd, err := regular.Descriptor(unix.AT_FDCWD, path, flags)
		if err != nil {
			return nil, err
		}
		if err := r.ask(fd, path); err != nil {
			unix.Close(fd)
			return nil, err
		}
		r.dir = newDir(fd)
	}
	return r.dir.retain(), nil
}

// ask returns why the root must not be edited, if there is a reason. Its directory is open.
func (r *Root) ask(fd int, path string) error {
	if r.refuse == nil {
		return nil
	}
	real, err := regular.RealOf(fd, path)
	if err != nil {
		return err
	}
	err, among := r.refuse(filepath.Join(real, r.name), r.name == "")
	if among {
		r.real = real
	}
	return err
}

// prefix is what the paths of files below the root begin with.
func (r *Root) prefix() string {
	switch {
	case r.name != "":
		return strings.TrimSuffix(r.path, r.name)
	case strings.HasSuffix(r.path, "/"):
		return r.path
	}
	return r.path + "/"
}

// OpenDir opens a directory below the root; "" is the root itself or, if that is a file, the directory that it is in.
// No symbolic link is followed.
func (r *Root) OpenDir(path string) (*os.File, error) {
	d, err := r.open()
	if err != nil {
		return nil, err
	}
	defer d.release()
	fd, err := regular.OpenBelow(d.fd, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), r.prefix()+path), nil
}

// Target returns the file below the root that reports call path: the root's own path and
// what is below it.
func (r *Root) Target(path string) Target { return Target{Path: path, root: r} }

// Roots keeps the arguments of a walk open: see [Options].
type Roots struct{ all []*Root }

// Close closes the roots.
func (r *Roots) Close() {
	for _, root := range r.all {
		root.Close()
	}
	r.all = nil
}

// A Target is the place of one file below a root that is kept open.
type Target struct {
	Path string // as reports name it
	root *Root
	id   inode // of the file that was walked; zero where any will do
}

// rel returns the directory of the target below its root, "" for the root itself, and the
// file's name in it.
func (t *Target) rel() (dir, name string) {
	rel, ok := strings.CutPrefix(t.Path, t.root.prefix())
	if !ok {
		return "..", "" // nowhere
	}
	dir, name = filepath.Split(rel)
	return strings.TrimSuffix(dir, "/"), name
}

// Below returns the root, and the path of the file below it; "" where the root is the file.
func (t *Target) Below() (root *Root, path string) {
	if t.root.name != "" {
		return t.root, ""
	}
	return t.root, strings.TrimPrefix(t.Path, t.root.prefix())
}

// Stat describes what the target's name leads to, which may be a link. None on the way to it is followed.
func (t *Target) Stat() (st unix.Stat_t, err error) {
	d, err := t.root.open()
	if err != nil {
		return st, err
	}
	defer d.release()
	dir, name := t.rel()
	at, err := regular.OpenBelow(d.fd, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return st, err
	}
	defer unix.Close(at)
	err = regular.Uninterrupted(func() error { return unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// Target returns the place of a file that a walk with [Options].Keep visits.
func (f *File) Target() Target { return Target{f.Path, f.root, f.id()} }

// Whichever returns the place for any file that is there, because an editor puts a new one there.
func (t Target) Whichever() Target {
	t.id = inode{}
	return t
}

// An opener opens the directories of targets. It keeps the last one open for the next
// target in it.
type opener struct {
	root *Root
	path string
	dir  *dir
}

// of returns a target's open directory, which belongs to the opener, and the name in it.
func (o *opener) of(t Target) (d *dir, name string, err error) {
	path, name := t.rel()
	if o.dir != nil && o.root == t.root && o.path == path {
		return o.dir, name, nil
	}
	o.close()
	if d, err = t.root.open(); err != nil {
		return nil, "", err
	}
	if path != "" {
		fd, err := regular.OpenBelow(d.fd, path, unix.O_RDONLY|unix.O_DIRECTORY)
		d.release()
		if err != nil {
			return nil, "", err
		}
		d = newDir(fd)
	}
	o.root, o.path, o.dir = t.root, path, d
	return d, name, nil
}

func (o *opener) close() {
	if o.dir != nil {
		o.dir.release()
		o.dir = nil
	}
}
