package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"sync/atomic"
	"time"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// File is a regular file of a walk. It is open only while it is visited.
type File struct {
	Path   string // as reports name it
	Err    error  // the file or directory could not be read; nothing else is set
	SameAs string // another path of the same file, which was visited before

	found
	contents
	walked

	changed bool  // another editor came between reading and writing
	writes  bool  // it came to writing: see Blame
	copied  inode // the new file that the name leads to now
}

// found is where a file is, to be opened again.
type found struct {
	root   *Root // nil outside of a walk
	dir    *dir
	name   string // in dir
	follow bool
	only   inode // what the name must lead to, even after another editor; zero: anything
}

// walked is what a walk knows of a file while it is visited.
type walked struct {
	ctx    context.Context      // nil outside of a walk
	alone  bool                 // the walk's only file: a signal may end the process, which leaves it old or new
	others func(*File) []Target // its other names in the walk; nil: it has one
}

// contents is an open file as it is read.
type contents struct {
	fd     int
	stat   unix.Stat_t // of ELF files, and of others that were looked at
	head   []byte
	buf    []byte          // that head is a part of
	pooled *[headSize]byte // buf, where it is given back with Close
	racy   bool            // changed so recently that another change could leave its time the same
	reads  []reading       // of a racy file
}

// failed is a file or directory that cannot be read.
func failed(path string, err error) *File {
	return &File{Path: path, Err: err, contents: contents{fd: -1}}
}

// A reading is a part of the file that was read, and a hash of it.
type reading struct {
	off int64
	n   int
	sum uint64
}

// id tells files apart.
//
//nolint:unconvert // Dev is 32 bits wide on MIPS
func (c *contents) id() inode { return inode{uint64(c.stat.Dev), c.stat.Ino} }

// noatime remembers that O_NOATIME was refused. Only a file's owner and root may use it (open(2)), and in another
// user's tree each try would cost a system call.
type noatime struct{ refused atomic.Int32 }

const noatimeTries = 8

// open reads a file's head into buf. It never fails: File.Err says what went wrong.
func open(d *dir, name, path string, follow bool, na *noatime, buf []byte) *File {
	f := failed(path, nil)
	f.dir, f.name, f.follow, f.buf = d, name, follow, buf
	// O_NONBLOCK: do not wait for a writer if the name is a FIFO by now.
	flags, openat := unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, regular.Descriptor
	if follow || d == here { // whatever it leads to
		openat = regular.OpenAt
	}
	if follow {
		flags &^= unix.O_NOFOLLOW
	}
	err := error(unix.EPERM)
	if na.refused.Load() < noatimeTries {
		if f.fd, err = openat(d.fd, name, flags|unix.O_NOATIME); errors.Is(err, unix.EPERM) {
			na.refused.Add(1)
		}
	}
	if errors.Is(err, unix.EPERM) {
		f.fd, err = openat(d.fd, name, flags)
	}
	if err != nil {
		f.fd, f.Err = -1, err
		return f
	}
	n, err := f.pread(buf, 0)
	if err == unix.EBADF { // only its place is open
		err = regular.ErrNotRegular
	}
	if f.head = buf[:n]; err != nil {
		f.fail(err)
		return f
	}
	if f.ELF() {
		if err := f.look(); err != nil {
			f.fail(err)
		}
	}
	return f
}

// look asks which file it is, once its head has been read.
func (c *contents) look() error {
	if err := regular.Uninterrupted(func() error { return unix.Fstat(c.fd, &c.stat) }); err != nil {
		return err
	}
	if c.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return regular.ErrNotRegular
	}
	if time.Since(time.Unix(c.stat.Ctim.Unix())) < tick {
		c.racy = true
		c.remember(c.head, 0)
	}
	return nil
}

// looked reports whether it is known which file it is.
func (c *contents) looked() bool { return c.stat.Mode != 0 }

func (f *File) fail(err error) {
	f.close()
	f.Err, f.head = err, nil
}

func (c *contents) close() {
	if c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
}

// ELF reports whether the file begins with the ELF magic.
func (c *contents) ELF() bool {
	h := c.head
	return len(h) >= 4 && h[0] == 0x7f && h[1] == 'E' && h[2] == 'L' && h[3] == 'F'
}

// Head returns the first bytes, at most 4096; valid during the visit.
func (c *contents) Head() []byte { return c.head }

// FD returns the descriptor of an ELF file, to be read from while the file is visited.
func (c *contents) FD() int { return c.fd }

// Size returns the size of an ELF file in bytes.
func (c *contents) Size() int64 { return c.stat.Size }

// Stat is what the file was when it was opened, if it is an ELF file.
func (c *contents) Stat() *unix.Stat_t { return &c.stat }

// ReadAt reads from the file; see [io.ReaderAt].
func (c *contents) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.pread(p, off)
	if c.racy {
		c.remember(p[:n], off)
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// NextData returns the lowest offset, not below off, at which the file has data and no hole, or the file's size. It
// returns off if the file system does not tell (lseek(2), SEEK_DATA).
func (c *contents) NextData(off int64) int64 {
	at, err := unix.Seek(c.fd, off, unix.SEEK_DATA)
	switch {
	case err == unix.ENXIO:
		return c.stat.Size
	case err != nil:
		return off
	}
	return at
}

// tick is longer than a step of the clock that times of change are taken from.
const tick = 50 * time.Millisecond

var seed = maphash.MakeSeed()

func (c *contents) remember(b []byte, off int64) {
	c.reads = append(c.reads, reading{off, len(b), maphash.Bytes(seed, b)})
}

// asRead reports whether what was read of a racy file is still there. An error comes from reading, and says nothing
// about changes.
func (c *contents) asRead() (bool, error) {
	for _, r := range c.reads {
		b := make([]byte, r.n)
		if n, err := c.pread(b, r.off); err != nil || n != r.n || maphash.Bytes(seed, b) != r.sum {
			return false, err
		}
	}
	return true, nil
}

func (c *contents) pread(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pread(c.fd, p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return n, err
		case m == 0:
			return n, nil
		}
		n += m
		// A regular file gives all it has, so a second read would only return 0.
		if n < len(p) && off+int64(n) >= c.stat.Size {
			return n, nil
		}
	}
	return n, nil
}

// Writer is what an edit writes to; it is elfedit.Writer.
type Writer interface {
	io.WriterAt
	Truncate(size int64) error
}

// Errors of Write that say what to do.
var (
	errBusy = errors.New(
		"is being executed (text file busy), and so cannot be edited in place: stop the program, or let a new file take its " +
			"place, without --in-place")
	errChanged  = errors.New("was changed by another process while it was read; nothing was written")
	errReadOnly = errors.New("cannot be made writable")

	errPrivileged = errors.New(
		"has privileges (set-user-ID, set-group-ID or capabilities), others may write it, and it has other hard links, so " +
			"that it is not edited in place; without --in-place a new file takes its place, and the other links keep the old one")
)

// Write opens the file for writing and hands it to apply. The inode, owner, mode, file capabilities, other extended
// attributes and access time stay. The kernel clears set-user-ID and set-group-ID bits on a write; they are set
// again.
//
// A read-only file of the caller's is made writable while it is opened. A file that has been replaced or changed
// since it was read is not touched (errChanged).
//
// A file with privileges is replaced ([File.Replace]) if others than the caller may write it. Otherwise they could
// write to it before it gets its privileges back, and so gain these. Such a file with other hard links is refused.
//
// Write waits for other editors of the file until the walk is cancelled. A walk visits a file again that they have
// changed or replaced.
func (f *File) Write(apply func(Writer) error) error {
	mode := f.stat.Mode & 0o7777
	caps := capabilities(f.fd, mode) // they change with the time that lock compares
	if privileged := mode&(unix.S_ISUID|unix.S_ISGID) != 0 || caps != nil; privileged && f.othersWrite() {
		if f.OtherLinks() > 0 {
			return errPrivileged
		}
		return f.Replace(Replacing{}, func(w Copy) error { return apply(w) })
	}
	f.writes = true
	fd, err := f.openForWriting()
	if err != nil {
		return err
	}
	w := &output{fd: fd}
	err = apply(w)
	if w.wrote {
		err = errors.Join(err, f.restore(fd, mode, caps))
	}
	if cerr := unix.Close(fd); err == nil && cerr != nil && cerr != unix.EINTR {
		err = fmt.Errorf("closing: %w", cerr) // where a network file system reports a full disk
	}
	return err
}

// othersWrite reports whether others than the caller may write the file. The group's bits are the mask of an access
// control list (acl(5)).
func (f *File) othersWrite() bool { return int(f.stat.Uid) != os.Geteuid() || f.stat.Mode&0o022 != 0 }

// writing are the flags of an edit in place. What it needs to know was read before, and a write does not change the
// access time.
const writing = unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK

// ownReadOnly reports whether only the file's mode, which the caller may change, keeps it from being written.
func (f *File) ownReadOnly() bool {
	return f.stat.Mode&unix.S_IWUSR == 0 && (os.Geteuid() == 0 || int(f.stat.Uid) == os.Geteuid())
}

func (f *File) openForWriting() (int, error) {
	fd, err := regular.Descriptor(f.dir.fd, f.name, writing)
	if errors.Is(err, unix.EACCES) && f.stat.Mode&unix.S_IWUSR == 0 {
		fd, err = f.openReadOnly(writing)
	}
	switch {
	case errors.Is(err, unix.ETXTBSY):
		return -1, errBusy
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT):
		return -1, errChanged
	case err != nil:
		return -1, fmt.Errorf("opening for writing: %w", err)
	}
	if err := f.lock(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openReadOnly opens a file for writing although its mode forbids that. It keeps other editors out meanwhile, so the
// new time of change comes from this change of mode alone.
func (f *File) openReadOnly(flags int) (fd int, err error) {
	if err := f.lock(f.fd); err != nil {
		return -1, err
	}
	defer regular.Unlock(f.fd)
	mode := f.stat.Mode & 0o7777
	if err := regular.Uninterrupted(func() error { return unix.Fchmod(f.fd, mode|unix.S_IWUSR) }); err != nil {
		return -1, fmt.Errorf("%w (mode %#o): %w", errReadOnly, mode, err)
	}
	fd, err = regular.Descriptor(f.dir.fd, f.name, flags)
	back := regular.Uninterrupted(func() error { return unix.Fchmod(f.fd, mode) })
	var now unix.Stat_t
	if back == nil {
		back = regular.Uninterrupted(func() error { return unix.Fstat(f.fd, &now) })
	}
	if back != nil && err == nil {
		unix.Close(fd)
		return -1, fmt.Errorf("setting the mode back to %#o: %w", mode, back)
	}
	f.stat.Ctim = now.Ctim
	return fd, err
}

// lock takes the lock by which editors of a file wait for each other (flock(2)). It then makes sure that the file is
// the one that was read, unchanged, and that its name still leads to it. An edit of a copy gives the name to another
// file. Closing the descriptor gives the lock back.
func (f *File) lock(fd int) error {
	if f.ctx != nil && !f.alone {
		_ = f.ctx.Err() // from here on a context that listens for signals does so
	}
	if err := regular.Lock(cmp.Or(f.ctx, context.Background()), fd, 0, nil); err != nil {
		return fmt.Errorf("waiting for another editor of the file: %w", err)
	}
	as, err := f.asOpened(fd)
	if err != nil {
		return err
	}
	if !as || !f.leadsTo(f.dir.fd, f.name) {
		f.changed = true
		return errChanged
	}
	return nil
}

// asOpened reports whether a descriptor's file is the one that was opened to be read, and unchanged. Nobody can set
// the time of the inode's last change (inode(7), ctime), so it shows when somebody sets the modification time back.
func (f *File) asOpened(fd int) (bool, error) {
	var now unix.Stat_t
	if err := regular.Uninterrupted(func() error { return unix.Fstat(fd, &now) }); err != nil {
		return false, err
	}
	if now.Dev != f.stat.Dev || now.Ino != f.stat.Ino || now.Size != f.stat.Size ||
		now.Mtim != f.stat.Mtim || now.Ctim != f.stat.Ctim || now.Mode != f.stat.Mode {
		return false, nil
	}
	return f.asRead()
}

// leadsTo reports whether a name leads to the file.
func (f *File) leadsTo(dir int, name string) bool {
	var now unix.Stat_t
	err := regular.Uninterrupted(func() error { return unix.Fstatat(dir, name, &now, unix.AT_SYMLINK_NOFOLLOW) })
	return err == nil && f.is(&now)
}

// is reports whether st is the file's.
func (f *File) is(st *unix.Stat_t) bool { return st.Dev == f.stat.Dev && st.Ino == f.stat.Ino }

// Changed reports whether another editor has changed or replaced the file during the visit. Nothing was written then,
// because the plan no longer fits the file. A walk visits it again by itself; other callers open it again, after
// [Retry].
func (f *File) Changed() bool { return f.changed }

// Retry reports whether to visit a file that another editor has changed once more after so many tries, and gives that
// editor time to finish.
func Retry(tries int) bool {
	if tries > 1 { // the other editor has not reached its lock yet
		time.Sleep(time.Millisecond)
	}
	return tries < 20
}

// Blame returns the error to report for one that came from reading the file during a visit, before Write wrote
// anything. If another editor has changed the file meanwhile, what was read mixes two states and says nothing about
// either. The error is then that the file was changed, and the walk visits it again.
func (f *File) Blame(err error) error {
	if err == nil || f.Err != nil || f.writes || !f.ELF() {
		return err
	}
	if as, failed := f.asOpened(f.fd); as || failed != nil {
		return err
	}
	f.changed = true
	return errChanged
}

const capabilityAttr = "security.capability" // capabilities(7), "File capabilities"

// capabilities returns the stored capabilities of an open file, which the kernel removes on a write.
func capabilities(fd int, mode uint32) []byte {
	if mode&0o111 == 0 {
		return nil // capabilities act when a program is executed
	}
	b := make([]byte, 64) // struct vfs_ns_cap_data has 24 bytes
	n, err := unix.Fgetxattr(fd, capabilityAttr, b)
	if err != nil || n <= 0 {
		return nil
	}
	return b[:n]
}

func (f *File) restore(fd int, mode uint32, caps []byte) error {
	var errs []error
	if mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		if err := regular.Uninterrupted(func() error { return unix.Fchmod(fd, mode) }); err != nil {
			errs = append(errs, fmt.Errorf("setting mode %#o again: %w", mode, err))
		}
		var now unix.Stat_t // chmod(2): a caller outside the file's group gets neither the bit nor an error
		if unix.Fstat(fd, &now) == nil && mode&unix.S_ISGID != 0 && now.Mode&unix.S_ISGID == 0 {
			errs = append(errs,
				errors.New("the file was edited, but lost its set-group-ID bit, which only its group and root can set"))
		}
	}
	if caps != nil {
		if err := regular.Uninterrupted(func() error { return unix.Fsetxattr(fd, capabilityAttr, caps, 0) }); err != nil {
			errs = append(errs, fmt.Errorf("the file was edited, but its capabilities are lost (setcap restores them): %w", err))
		}
	}
	return errors.Join(errs...)
}

// output is the file while it is written.
type output struct {
	fd    int
	wrote bool
}

func (w *output) WriteAt(p []byte, off int64) (n int, err error) {
	w.wrote = true
	for n < len(p) {
		m, err := unix.Pwrite(w.fd, p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return n, err
		case m == 0:
			return n, io.ErrShortWrite
		}
		n += m
	}
	return n, nil
}

func (w *output) Truncate(size int64) error {
	w.wrote = true
	return regular.Uninterrupted(func() error { return unix.Ftruncate(w.fd, size) })
}
