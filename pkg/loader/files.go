package loader

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/pkg/tree"
)

// Files is a file system as the programs in it see it: paths are looked up below
// a root, absolute symbolic links too. It remembers what it has seen, for good,
// and is safe for concurrent use.
type Files struct {
	*places
	files  memo[*File]
	opened bool // see Options
	look   func(f *File, im *elfimage.Image, r io.ReaderAt, head []byte) any
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
	resolve memo[place]
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

// NewFiles returns a view of the tree below root ("" or "/": all of it).
func NewFiles(root string) *Files {
	root = strings.TrimRight(root, "/")
	if root != "" {
		// Links in the path to the root are this machine's own.
		if real, err := sysroot.Realpath(root); err == nil {
			root = strings.TrimRight(real, "/")
		}
	}
	return &Files{places: &places{root: root}}
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
		l.mode, l.target, l.err = sysroot.Lstat(host)
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

// place is where a path leads on this machine, all links resolved.
type place struct {
	host  string
	mode  uint32
	errno syscall.Errno
}

// Resolve returns the path on this machine that an absolute path below the root
// leads to, and the type bits of its mode.
func (fs *Files) Resolve(p string) (host string, mode uint32, err error) {
	at := fs.place(p)
	if at.errno != 0 {
		return "", 0, at.errno
	}
	return at.host, at.mode, nil
}

func (fs *Files) place(p string) place {
	at, known := fs.resolve.get(p)
	if known {
		return at
	}
	var err error
	if at.host, at.mode, err = sysroot.Follow(p, fs.start, fs.lstat); err != nil {
		at.errno = errnoOf(err)
	}
	at, _ = fs.resolve.keep(p, at)
	return at
}

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

// IsDir reports whether a path leads to a directory.
func (fs *Files) IsDir(p string) bool {
	at := fs.place(p)
	return at.errno == 0 && at.mode&unix.S_IFMT == unix.S_IFDIR
}

// dir returns the names in the directory that p leads to; nil where it can be searched but not read.
func (fs *Files) dir(p string) (names map[string]bool, errno syscall.Errno) {
	at := fs.place(p)
	if at.errno != 0 {
		return nil, at.errno
	}
	if at.mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, syscall.ENOTDIR
	}
	names, known := fs.dirs.get(at.host)
	if known {
		return names, 0
	}
	if f, err := os.OpenFile(at.host, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0); err == nil {
		defer f.Close()
		if all, err := f.Readdirnames(-1); err == nil {
			names = make(map[string]bool, len(all))
			for _, n := range all {
				names[n] = true
			}
		}
	}
	names, _ = fs.dirs.keep(at.host, names)
	return names, 0
}

// Names returns the names in a directory; nil where there is none or it cannot be read.
// The map must not be modified.
func (fs *Files) Names(dir string) map[string]bool {
	names, _ := fs.dir(dir)
	return names
}

// openIn opens a file of a directory, by a name without a slash.
func (fs *Files) openIn(dir, name string) *File {
	names, errno := fs.dir(dir)
	if errno != 0 {
		return unread(errno)
	}
	if names != nil && !names[name] {
		return absent
	}
	if dir == "" {
		dir = "/"
	}
	f := fs.Open(strings.TrimRight(dir, "/") + "/" + name)
	if f.errno == syscall.ENOENT && names != nil {
		return &File{errno: f.errno, dangling: true, later: &later{}}
	}
	return f
}

// File is a file that the loader looked at.
type File struct {
	Path string      // on this machine, links resolved
	Mode os.FileMode // permission and set-user-ID bits
	Size int64

	ident   [elf.EI_NIDENT]byte
	etype   elf.Type
	machine elf.Machine
	eflags  uint32
	version uint32
	phent   uint16
	short   bool // shorter than an ELF header
	capable bool // a program started from it has capabilities
	id      fileID
	errno   syscall.Errno

	dangling bool // a symbolic link that leads nowhere

	Seen    any  // what [Options.Look] returned
	Stopped bool // an edit of it is not finished: see [elfedit.Stopped]
	Editing bool // because it is under way: somebody has the file's lock

	// Err says why ELF is nil, or why what is in the file could not be read.
	Err error
	// interpErr is Err for the kernel, which reads a program's PT_INTERP; nobody reads a library's.
	interpErr error
	// Links is how many names the file has (hard links).
	Links int
	// Executes: a program that needs the C library alone, and calls its execv, as a compiled wrapper does.
	Executes bool
	ELF      *Header // nil where the file is no ELF file, or one that contradicts itself

	Needed  []string
	Soname  string
	Tag     elf.DynTag // DT_RUNPATH, DT_RPATH or DT_NULL
	List    string     // the run path
	RPath   string     // the DT_RPATH that a DT_RUNPATH beside it shadows
	Shadow  bool       // there is one
	Interp  string
	Note    resolution.Note // the resolution note, where the loader reads one
	NoteErr error           // why the loader reads no more of it, or nothing
	// ExecutableStack says why glibc makes the stack executable for the file, or refuses it; "" where it does not.
	ExecutableStack string
	// Description is the resolution note as it stands in the file.
	Description string
	deps        []dep
	flags1      elf.DynFlag1
	dynamic     bool

	versions versions
	audit    [2]string // DT_AUDIT, DT_DEPAUDIT
	isa      uint32    // GNU_PROPERTY_X86_ISA_1_NEEDED
	first    uint64    // addresses of the first byte that is loaded, and of the end
	end      uint64

	*later
}

// later is what is read of a file once it is asked for.
type later struct {
	dlopen sync.Once
	notes  []elfimage.DlopenNote
	names  sync.Once
	opens  []Literal

	symbolsOnce sync.Once
	linkage     *elfimage.Linkage
	linkErr     error
	enough      atomic.Pointer[[]*later] // the files that once had all that this one refers to: see Scope.Unbound
}

// Ask changes the libraries that a file needs, in a view of it that [Loader.Edited] makes: names that are replaced, in DT_VERNEED
// too, and one that is added at the end, unless it is "".
func (f *File) Ask(replaced map[string]string, added string) {
	f.Needed, f.deps, f.versions.needs = slices.Clone(f.Needed), slices.Clone(f.deps), slices.Clone(f.versions.needs)
	rename := func(name *string) {
		if to, ok := replaced[*name]; ok {
			*name = to
		}
	}
	for i := range f.Needed {
		rename(&f.Needed[i])
	}
	for i := range f.deps {
		rename(&f.deps[i].name)
	}
	for i := range f.versions.needs {
		rename(&f.versions.needs[i].Library)
	}
	if added != "" {
		f.Needed, f.deps = append(f.Needed, added), append(f.deps, dep{elf.DT_NEEDED, added})
	}
}

// unread returns a file that could not be opened.
func unread(errno syscall.Errno) *File { return &File{errno: errno, later: &later{}} }

// there reports whether something has the name, though it may lead nowhere or not be opened.
func (f *File) there() bool {
	return f.dangling || f.errno != syscall.ENOENT && f.errno != syscall.ENOTDIR
}

// absent is every file that a directory does not have.
var absent = unread(syscall.ENOENT)

// Header is what is kept of a parsed image, which has buffers of its own.
type Header struct {
	Type    elf.Type
	Machine elf.Machine
	OSABI   elf.OSABI

	skip  elfimage.Reason
	notes bool
}

// SkipReason is [elfimage.Image.SkipReason].
func (h *Header) SkipReason() elfimage.Reason { return h.skip }

// dep is a DT_NEEDED, DT_AUXILIARY or DT_FILTER, in the order of the dynamic section.
type dep struct {
	tag  elf.DynTag
	name string
}

type fileID struct{ dev, ino uint64 }

// Open opens and parses the file that a path leads to, once. Where that fails,
// the file returned says why: see [File.Problem].
func (fs *Files) Open(p string) *File {
	at := fs.place(p)
	if at.errno != 0 {
		return unread(at.errno)
	}
	if f, known := fs.files.get(at.host); known {
		return f
	}
	if fs.base != nil {
		f := fs.base.Open(p)
		if f.ELF != nil {
			edited := *f
			fs.edited(&edited)
			f = &edited
		}
		f, _ = fs.files.keep(at.host, f)
		return f
	}
	fd, err := at.open()
	if err != nil {
		f, _ := fs.files.keep(at.host, &File{Path: at.host, errno: errnoOf(err), later: &later{}})
		return f
	}
	defer unix.Close(fd)
	return fs.parsed(at.host, fd)
}

// Take keeps what the image of an open file says, of which st is the state, head the beginning
// and host the path, free of symbolic links, so that the file need not be opened again.
func (fs *Files) Take(host string, fd int, st *unix.Stat_t, head []byte, im *elfimage.Image) *File {
	f := &File{Path: host, later: &later{}}
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
	f, im := parse(host, fd, fs.opened, head)
	if im != nil {
		defer im.Release()
	}
	if fs.look != nil && im != nil {
		f.Seen = fs.look(f, im, descriptor(fd), head[:min(f.Size, headSize)])
	}
	if was, known := fs.files.keep(host, f); known {
		return was
	}
	if fs.opened && im != nil && f.Err == nil {
		f.readOpened(im)
	}
	return f
}

// open opens the file at a place for reading. What was a regular file a moment ago is opened as the
// walk of a tree opens it, so that a FIFO which has taken its place is not waited for.
func (at *place) open() (fd int, err error) {
	if at.mode&unix.S_IFMT == unix.S_IFREG {
		if fd, err = unix.Open(at.host, unix.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != unix.EINTR {
			return fd, err
		}
	}
	return plainfile.OpenAt(unix.AT_FDCWD, at.host, 0)
}

// headSize is how many bytes of a file are read at once: a program's headers, symbols and
// strings, mostly, but not its dynamic section.
const headSize = 8 << 10

var heads = sync.Pool{New: func() any { return new([headSize]byte) }}

// parse reads an open file. The image, nil where there is none, can be read from until head
// is used again; it has section headers where the names in the file will be asked for.
func parse(host string, fd int, opened bool, room *[headSize]byte) (f *File, im *elfimage.Image) {
	f = &File{Path: host, later: &later{}}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.errno = errnoOf(err)
		return f, nil
	}
	if !f.stat(&st) {
		return f, nil
	}
	r := descriptor(fd)
	head := room[:min(f.Size, headSize)]
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		f.Err = readError(errnoOf(err))
		return f, nil
	}
	f.header(head)
	if f.short || string(f.ident[:len(elf.ELFMAG)]) != elf.ELFMAG {
		return f, nil
	}
	im, err := elfimage.ParseLoad(r, f.Size, head)
	if err != nil {
		f.Err = err
		return f, nil
	}
	if opened {
		im.ReadSections()
	}
	if f.Stopped = elfedit.Stopped(im); f.Stopped {
		f.Editing = tree.Locked(fd)
	}
	f.take(im, fd)
	return f, im
}

// take reads what an image says.
func (f *File) take(im *elfimage.Image, fd int) {
	f.Err = f.read(im)
	f.Executes = f.executes(im)
	f.capable = f.Interp != "" && f.Mode&0o111 != 0 && capable(fd)
	f.ELF = &Header{im.Type, im.Machine, im.OSABI, im.SkipReason(), hasNotes(im)}
}

func (f *File) executes(im *elfimage.Image) bool {
	if f.Interp == "" || slices.ContainsFunc(f.Needed, func(n string) bool { return n != "libc.so.6" && !MuslOnly(n) }) {
		return false
	}
	table, err := im.Read(im.StrOff, im.StrSize)
	return err == nil && bytes.Contains(table, []byte("execv\x00"))
}

// stat takes over a file's state, and reports whether it is a regular one.
func (f *File) stat(st *unix.Stat_t) bool {
	f.id = fileID{uint64(st.Dev), st.Ino}    //nolint:unconvert // Dev is 32 bits wide on MIPS
	f.Size, f.Links = st.Size, int(st.Nlink) //nolint:unconvert // it is 32 bits wide on some machines
	f.Mode = os.FileMode(st.Mode & 0o777)
	if st.Mode&unix.S_ISUID != 0 {
		f.Mode |= os.ModeSetuid
	}
	if st.Mode&unix.S_ISGID != 0 {
		f.Mode |= os.ModeSetgid
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return true
	case unix.S_IFDIR:
		f.Err = readError(syscall.EISDIR)
	default:
		f.Err = plainfile.ErrNotRegular
	}
	return false
}

// secure says by what a program that is started from the file gets more rights than
// its caller has, so that the kernel sets AT_SECURE; "" where it gets none
// (bprm_fill_uid in fs/exec.c, cap_bprm_creds_from_file in security/commoncap.c).
func (f *File) secure() string {
	switch {
	case f.Mode&os.ModeSetuid != 0:
		return "set-user-ID"
	case f.Mode&os.ModeSetgid != 0 && f.Mode&0o010 != 0: // without it: mandatory locking, once
		return "set-group-ID"
	case f.capable:
		return "file capabilities"
	}
	return ""
}

// capable reports whether a program that is started from an open file gets capabilities
// from it.
func capable(fd int) bool {
	// struct vfs_ns_cap_data of linux/capability.h: magic and flags, then permitted and
	// inheritable, two words each in the versions from 2 on.
	var b [24]byte
	n, err := unix.Fgetxattr(fd, "security.capability", b[:])
	if err != nil || n < 12 {
		return false
	}
	le := binary.LittleEndian
	permitted := le.Uint32(b[4:])
	if n >= 20 {
		permitted |= le.Uint32(b[12:])
	}
	effective := le.Uint32(b[:]) & 1
	return effective != 0 || permitted != 0
}

// header reads what the loader checks first.
func (f *File) header(head []byte) {
	copy(f.ident[:], head)
	h, isELF, whole := elfimage.DecodeHeader(head)
	f.short = len(head) < elfimage.MinHeader || isELF && !whole
	f.etype, f.machine, f.version, f.eflags, f.phent = h.Type, h.Machine, h.Version, h.Flags, h.Phentsize
}

func (f *File) read(im *elfimage.Image) (err error) {
	f.properties(im)
	f.Interp, f.interpErr = im.Interpreter()
	f.dynamic = len(im.Dynamic) > 0
	if !f.dynamic {
		return nil
	}
	if err := f.readDeps(im); err != nil {
		return err
	}
	if f.Soname, err = im.Soname(); err != nil {
		return err
	}
	if f.Tag, f.List, err = im.RunPath(); err != nil {
		return err
	}
	if f.RPath, f.Shadow, err = im.Shadowed(); err != nil {
		return err
	}
	if d, ok := im.Dyn(elf.DT_FLAGS_1); ok {
		f.flags1 = elf.DynFlag1(d.Val)
	}
	f.versions = readVersions(im)
	note, err := im.ResolutionCache()
	if note != nil {
		f.Description = note.Description
		f.Note, f.NoteErr = resolution.Parse([]byte(note.Description))
	}
	return err
}

// readDeps reads what the dynamic section asks to load.
func (f *File) readDeps(im *elfimage.Image) error {
	n := 0
	for i := range im.Dynamic {
		if im.Dynamic[i].Tag == elf.DT_NEEDED {
			n++
		}
	}
	f.Needed, f.deps = make([]string, 0, n), make([]dep, 0, n)
	for _, d := range im.Dynamic {
		switch d.Tag {
		case elf.DT_NEEDED, elf.DT_AUXILIARY, elf.DT_FILTER:
			name, err := im.DynString(d)
			if err != nil {
				return err
			}
			f.deps = append(f.deps, dep{d.Tag, name})
			if d.Tag == elf.DT_NEEDED {
				f.Needed = append(f.Needed, name)
			}
		case dtAudit, dtDepAudit:
			i := 0
			if d.Tag == dtDepAudit {
				i = 1
			}
			var err error
			if f.audit[i], err = im.DynString(d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *File) isNoELF() bool {
	return f.errno == 0 && f.Err == nil && string(f.ident[:len(elf.ELFMAG)]) != elf.ELFMAG
}

// IsText reports whether the file begins as a text does: linker scripts have the names of libraries.
func (f *File) IsText() bool {
	return f.Size > 0 && !slices.ContainsFunc(f.ident[:min(f.Size, elf.EI_NIDENT)], func(b byte) bool { return b < ' ' && b != '\n' && b != '\t' && b != '\r' || b >= 0x7f })
}

// IsLFSPointer reports whether the file stands for one that Git LFS has not fetched (docs/spec.md of git-lfs).
func (f *File) IsLFSPointer() bool {
	const first = "version https://git-lfs.github.com/spec/"
	if f.Size < int64(len(first)) || f.Size >= 1024 || string(f.ident[:]) != first[:elf.EI_NIDENT] {
		return false
	}
	b, err := plainfile.Read(f.Path, 1024)
	return err == nil && strings.HasPrefix(string(b), first)
}

// problem says in words why the file cannot be read, or "".
func (f *File) problem() string {
	switch {
	case f.errno == syscall.ENOENT:
		return "does not exist"
	case f.errno != 0:
		return f.errno.Error()
	case errors.Is(f.Err, readError(syscall.EISDIR)):
		return "is a directory"
	case f.Err != nil:
		return f.Err.Error()
	case f.isNoELF():
		return string(elfimage.NotELF)
	case f.short:
		return "file too short"
	}
	return ""
}

// Same reports whether two files are one, or have the same contents.
func (f *File) Same(g *File) bool {
	if f.Path == g.Path || f.id == g.id {
		return true
	}
	return f.Size == g.Size && sameBytes(f.Path, g.Path)
}

func sameBytes(a, b string) bool {
	f, _, err := plainfile.Open(a)
	if err != nil {
		return false
	}
	defer f.Close()
	g, _, err := plainfile.Open(b)
	if err != nil {
		return false
	}
	defer g.Close()
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errx := io.ReadFull(f, x)
		m, erry := io.ReadFull(g, y)
		if n != m || string(x[:n]) != string(y[:m]) {
			return false
		}
		if errx != nil || erry != nil {
			return (errx == io.EOF || errx == io.ErrUnexpectedEOF) && (erry == io.EOF || erry == io.ErrUnexpectedEOF)
		}
	}
}

// readError is why a file that was opened could not be read.
type readError syscall.Errno

func (e readError) Error() string { return "cannot read file data: " + syscall.Errno(e).Error() }

// descriptor is an io.ReaderAt without os.File's registration with the poller.
type descriptor int

func (d descriptor) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pread(int(d), p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		default:
			n += m
		}
	}
	return n, nil
}
