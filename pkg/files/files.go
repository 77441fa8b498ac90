package files

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/runpath"
)

// Options say what of a file system is seen, and what is read of its files.
type Options struct {
	Root string // the tree that stands for "/"; "" for this machine's
	// Driver is a directory of this machine, links resolved, that stands for each of Links; "" for none.
	Driver string
	Links  []string
	// Opened says that what files may open will be asked for: it is then read at once.
	Opened bool
	// Look is called for each ELF file while it is open, with its image, a reader and its first bytes; what it
	// returns is kept in File.Seen. It is called from several goroutines.
	Look func(f *File, im *elfimage.Image, r io.ReaderAt, head []byte) any
}

// Files is a file system as the programs in it see it: paths are looked up below
// a root, absolute symbolic links too. It remembers what it has seen, for good,
// and is safe for concurrent use.
type Files struct {
	*places
	files  memo[*File]
	o      Options
	base   *Files // whose files these are, but for what edited has made of them
	edited func(*File)
}

// places are what is where in a file system.
type places struct {
	root   string   // path of the root on this machine, without a trailing slash
	mounts []string // directories (by runpath.Key) that stand for the directory driver of this machine
	driver string

	links   memo[link]            // by the path on this machine
	dirs    memo[map[string]bool] // names; nil where they cannot be read
	resolve memo[Place]
	long    memo[Place] // see longPath
	access  memo[bool]  // see accessible
}

// memo remembers what there is to a path, the first that was found.
type memo[V any] struct {
	mu sync.RWMutex
	of map[string]V
}

func (m *memo[V]) get(key string) (v V, known bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, known = m.of[key]
	return v, known
}

// keep remembers a value, and returns that which was remembered before, if there is one.
func (m *memo[V]) keep(key string, v V) (kept V, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kept, known = m.of[key]; known {
		return kept, true
	}
	if m.of == nil {
		m.of = map[string]V{}
	}
	m.of[key] = v
	return v, false
}

// limit forgets everything once there is a certain number.
func (m *memo[V]) limit(most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.of) >= most {
		m.of = nil
	}
}

// New returns the files that the options say.
func New(o Options) *Files {
	p := &places{root: strings.TrimRight(o.Root, "/"), driver: strings.TrimRight(o.Driver, "/")}
	if p.root != "" {
		// Links in the path to the root are this machine's own.
		if real, err := regular.Real(p.root); err == nil {
			p.root = strings.TrimRight(real, "/")
		}
	}
	for _, link := range o.Links {
		if o.Driver != "" && link != "" {
			p.mounts = append(p.mounts, runpath.Key(link))
		}
	}
	return &Files{places: p, o: o}
}

// Edited returns files like these that are what edit makes of them. What either reads need not be read again.
// edit is called from several goroutines.
func (fs *Files) Edited(edit func(*File)) *Files {
	return &Files{places: fs.places, base: fs, edited: edit}
}

type link struct {
	mode   uint32 // st_mode
	target string // of a symbolic link
	err    error
}

// lstat looks at a path of this machine, once.
func (fs *Files) lstat(host string) (mode uint32, target string, err error) {
	l, known := fs.links.get(host)
	if !known {
		l.mode, l.target, l.err = regular.Lstat(host)
		l, _ = fs.links.keep(host, l)
	}
	return l.mode, l.target, l.err
}

func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return syscall.EIO
}

// Place is where a path leads on this machine, all links resolved.
type Place struct {
	Host  string
	Mode  uint32 // st_mode
	Errno syscall.Errno
}

// Resolve returns the path on this machine that an absolute path below the root
// leads to, and the type bits of its mode.
func (fs *Files) Resolve(p string) (host string, mode uint32, err error) {
	at := fs.At(p)
	if at.Errno != 0 {
		return "", 0, at.Errno
	}
	return at.Host, at.Mode, nil
}

// At returns where an absolute path below the root leads.
func (fs *Files) At(p string) Place {
	memory := &fs.resolve
	if len(p) > longPath {
		memory = &fs.long
		memory.limit(maxLong)
	}
	at, known := memory.get(p)
	if known {
		return at
	}
	var err error
	if at.Host, at.Mode, err = regular.Follow(p, fs.start, fs.lstat); err != nil {
		at.Errno = errnoOf(err)
	}
	at, _ = memory.keep(p, at)
	return at
}

// Of the paths that are longer than longPath only a few are remembered at a time: where libraries lead to each other
// by $ORIGIN/.. each process spells them anew, and longer, and asks for each a few times in a row.
const longPath, maxLong = 256, 4096

func (fs *Files) start(p string) (cur, rest string) {
	if len(fs.mounts) > 0 {
		key := runpath.Key(p)
		for _, dir := range fs.mounts {
			if key == dir || strings.HasPrefix(key, dir+"/") {
				return fs.driver, strings.TrimPrefix(key, dir)
			}
		}
	}
	return fs.root, p
}

// Plain reports whether what a loader finds in a directory is what it holds: it can be searched, and has no directories
// for better processors.
func (fs *Files) Plain(dir string) bool {
	return fs.IsDir(dir) && fs.accessible(dir) && fs.At(dir+"/glibc-hwcaps").Errno != 0
}

// Readable reports whether a directory has a file of a name that this process may read.
func (fs *Files) Readable(dir, name string) bool {
	names := fs.Names(dir) // most names are in few of the directories
	return (names == nil || names[name]) && fs.accessible(dir+"/"+name)
}

// accessible reports whether this process may read a file, or search a directory.
func (fs *Files) accessible(p string) bool {
	at := fs.At(p)
	if at.Errno != 0 {
		return false
	}
	can, known := fs.access.get(at.Host)
	if !known {
		mode := uint32(unix.R_OK)
		if at.Mode&unix.S_IFMT == unix.S_IFDIR {
			mode = unix.X_OK
		}
		can, _ = fs.access.keep(at.Host, unix.Access(at.Host, mode) == nil)
	}
	return can
}

// IsDir reports whether a path leads to a directory.
func (fs *Files) IsDir(p string) bool {
	at := fs.At(p)
	return at.Errno == 0 && at.Mode&unix.S_IFMT == unix.S_IFDIR
}

// dir returns the names in the directory that p leads to; nil where it can be searched but not read.
func (fs *Files) dir(p string) (names map[string]bool, errno syscall.Errno) {
	at := fs.At(p)
	if at.Errno != 0 {
		return nil, at.Errno
	}
	if at.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, syscall.ENOTDIR
	}
	names, known := fs.dirs.get(at.Host)
	if known {
		return names, 0
	}
	if f, err := os.OpenFile(at.Host, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0); err == nil {
		defer f.Close()
		if all, err := f.Readdirnames(-1); err == nil {
			names = make(map[string]bool, len(all))
			for _, n := range all {
				names[n] = true
			}
		}
	}
	names, _ = fs.dirs.keep(at.Host, names)
	return names, 0
}

// Names returns the names in a directory; nil where there is none or it cannot be read.
// The map must not be modified.
func (fs *Files) Names(dir string) map[string]bool {
	names, _ := fs.dir(dir)
	return names
}

// OpenIn opens a file of a directory, by a name without a slash.
func (fs *Files) OpenIn(dir, name string) *File {
	names, errno := fs.dir(dir)
	if errno != 0 {
		return Unread("", errno)
	}
	if names != nil && !names[name] {
		return absent
	}
	p := strings.TrimRight(dir, "/") + "/" + name
	if len(p) >= unix.PathMax {
		return Unread("", syscall.ENAMETOOLONG) // whatever shorter way leads there
	}
	host := strings.TrimRight(fs.At(dir).Host, "/") + "/" + name
	if f, known := fs.files.get(host); known {
		return f
	}
	at := Place{Host: host}
	var err error
	if at.Mode, _, err = fs.lstat(host); err != nil || at.Mode&unix.S_IFMT == unix.S_IFLNK {
		at = fs.At(p)
	}
	f := fs.open(p, at)
	if f.Errno == syscall.ENOENT && names != nil {
		return dangling
	}
	return f
}

// Open opens and parses the file that a path leads to, once. Where that fails,
// the file returned says why: see [File.Problem].
func (fs *Files) Open(p string) *File { return fs.open(p, fs.At(p)) }

// open is Open for a path, and where it leads.
func (fs *Files) open(p string, at Place) *File {
	if at.Errno != 0 {
		return Unread("", at.Errno)
	}
	if f, known := fs.files.get(at.Host); known {
		return f
	}
	if fs.base != nil {
		f := fs.base.Open(p)
		if f.ELF != nil {
			edited := *f
			fs.edited(&edited)
			f = &edited
		}
		f, _ = fs.files.keep(at.Host, f)
		return f
	}
	fd, err := at.open()
	if err != nil {
		f, _ := fs.files.keep(at.Host, Unread(at.Host, errnoOf(err)))
		return f
	}
	defer unix.Close(fd)
	return fs.parsed(at.Host, fd)
}

// Take records a file that is already open, so that it need not be opened again: host is its path, free of
// symbolic links, st its stat, head its first bytes.
func (fs *Files) Take(host string, fd int, st *unix.Stat_t, head []byte, im *elfimage.Image) *File {
	f := Unread(host, 0)
	if f.stat(st) {
		f.header(head)
		f.take(im, fd)
	}
	f, _ = fs.files.keep(host, f)
	return f
}

// parsed returns what is in an open file. Two that look at the same time may both read it,
// which takes less time than waiting.
func (fs *Files) parsed(host string, fd int) *File {
	head := heads.Get().(*[headSize]byte)
	defer heads.Put(head)
	f, im := parse(host, fd, fs.o.Opened, head)
	if im != nil {
		defer im.Release()
	}
	if fs.o.Look != nil && im != nil {
		f.Seen = fs.o.Look(f, im, descriptor(fd), head[:min(f.Size, headSize)])
	}
	if was, known := fs.files.keep(host, f); known {
		return was
	}
	if fs.o.Opened && im != nil && f.Err == nil {
		f.readOpened(im)
	}
	return f
}

// TakeOpen reads an open file, to which a path below the root leads, so that it need not be opened again.
func (fs *Files) TakeOpen(p string, fd int) {
	var st, named unix.Stat_t
	at := fs.At(p)
	if fs.base != nil || // a view makes its files of others
		at.Errno != 0 || unix.Fstat(fd, &st) != nil || unix.Lstat(at.Host, &named) != nil || st.Dev != named.Dev ||
		st.Ino != named.Ino {
		return
	}
	if _, known := fs.files.get(at.Host); !known {
		fs.parsed(at.Host, fd)
	}
}

// open opens the file at a place for reading. What was a regular file a moment ago is opened as the
// walk of a tree opens it, so that a FIFO which has taken its place is not waited for.
func (at *Place) open() (fd int, err error) {
	if at.Mode&unix.S_IFMT == unix.S_IFREG {
		return regular.Descriptor(unix.AT_FDCWD, at.Host, unix.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	}
	return regular.OpenAt(unix.AT_FDCWD, at.Host, 0)
}

// Read returns the contents of a file of at most limit bytes.
func (fs *Files) Read(p string, limit int64) ([]byte, error) {
	at := fs.At(p)
	if at.Errno != 0 {
		return nil, at.Errno
	}
	return regular.Read(at.Host, limit)
}

// Inside returns the path below the root of a resolved path of this machine.
func (fs *Files) Inside(host string) string {
	if rest, ok := strings.CutPrefix(host, fs.driver+"/"); ok && len(fs.mounts) > 0 {
		return fs.mounts[0] + "/" + rest
	}
	if fs.root != "" {
		if rest, ok := strings.CutPrefix(host, fs.root+"/"); ok {
			return "/" + rest
		}
		if host == fs.root {
			return "/"
		}
	}
	return host
}

// Path returns the path below the root of a file of this machine.
func (fs *Files) Path(host string) string {
	if !strings.HasPrefix(host, "/") {
		if wd, err := os.Getwd(); err == nil {
			host = wd + "/" + host
		}
	}
	if fs.root == "" {
		return host
	}
	if rest, ok := strings.CutPrefix(host, fs.root+"/"); ok {
		return "/" + rest
	}
	if real, err := regular.Real(path.Dir(host)); err == nil {
		if rest, ok := strings.CutPrefix(real+"/"+path.Base(host), fs.root+"/"); ok {
			return "/" + rest
		}
	}
	if real, err := regular.Real(host); err == nil && real == fs.root {
		return "/"
	}
	return host
}

// Host returns where a path below the root is on this machine, no link followed.
func (fs *Files) Host(p string) string { return fs.root + p }
