package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// OtherLinks returns how many other hard links lead to the file.
func (f *File) OtherLinks() int { return int(max(f.stat.Nlink, 1)) - 1 }

// OutsideLinks returns how many hard links to the file the walk does not reach. [File.Replace] leaves them with the
// old file.
func (f *File) OutsideLinks() int {
	n := f.OtherLinks()
	if n > 0 && f.others != nil {
		n = max(n-len(f.others(f)), 0)
	}
	return n
}

// Replacing says how a new file takes the place of one.
type Replacing struct {
	// Also are further names of the file, which lead to the new file afterwards, like its other names in the walk.
	Also []Target
	// Anew: the new file begins empty. Otherwise it begins with the file's contents, except for Without.
	Anew    bool
	Without []Span
	// Sync: the new file is written to the disk before it takes the file's place, and the directory after it.
	Sync bool
}

// Span are the bytes of a file from Off up to End.
type Span struct{ Off, End int64 }

// NoNewFileError says why no new file could take a file's place. The file is as it was.
type NoNewFileError struct {
	Why string
	Err error
	// InPlace: the file itself could be written.
	InPlace bool
}

func (e *NoNewFileError) Error() string {
	return fmt.Sprintf("no new file can take its place: %s: %v", e.Why, e.Err)
}

// Unwrap returns the error of the system call.
func (e *NoNewFileError) Unwrap() error { return e.Err }

// Replace puts a new file, which apply edits, in the file's place. Owner, mode, access time and extended attributes
// (access control lists and capabilities among them) are the file's. Whoever has the old file open, mapped or under
// another name keeps it. A kill leaves each name with the old file or the new one, and at most temporary names, which
// [Options].Leftover reports. No symbolic link below a root is followed.
//
// The lock of the old file is held until all names lead to the new one, which is locked before it has a name. All
// temporary names are made before the first is renamed. A file that has been replaced or changed since it was read is
// not replaced (errChanged). [File.Write] says how other editors are treated.
func (f *File) Replace(r Replacing, apply func(Copy) error) error {
	f.alone = false
	f.writes = true
	if err := f.lock(f.fd); err != nil {
		return err
	}
	defer regular.Unlock(f.fd)
	at, base := f.dir.fd, f.name
	if i := strings.LastIndexByte(f.name, '/'); i >= 0 {
		in, err := regular.Descriptor(at, f.name[:i+1], unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return fmt.Errorf("opening the directory: %w", err)
		}
		defer unix.Close(in)
		at, base = in, f.name[i+1:]
	}
	n, err := regular.NewNameless(at, base)
	if err != nil {
		return f.noNewFile(at, err)
	}
	defer n.Close()
	if err := f.fill(n, &r, apply); err != nil {
		return f.noNewFile(-1, err)
	}
	if err := n.Name(); err != nil {
		return f.noNewFile(at, err)
	}
	others, err := f.nameOthers(n, r.Also)
	defer others.release()
	if err != nil {
		return err
	}
	if err := n.Rename(0, f.is); err != nil {
		if errors.Is(err, regular.ErrChanged) {
			f.changed = true
			return errChanged
		}
		return f.noNewFile(at, err)
	}
	var now unix.Stat_t
	if unix.Fstat(n.FD(), &now) == nil {
		f.copied = inode{uint64(now.Dev), now.Ino} //nolint:unconvert // as in id
	}
	for i, other := range others {
		if failed := n.Rename(i+1, f.is); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s leads to the old file: %w", other.path, failed))
		}
	}
	if r.Sync {
		for _, dir := range append(others, place{dir: newDir(at)}) {
			if failed := regular.SyncDir(dir.fd); failed != nil {
				err = errors.Join(err, fmt.Errorf("writing the directory to the disk: %w", failed))
			}
		}
	}
	return err
}

// place is another name of a file that is replaced, and the directory that it is in.
type place struct {
	*dir
	path string
}

type places []place

func (all places) release() {
	for _, p := range all {
		p.release()
	}
}

// nameOthers gives a new file temporary names beside the file's other names. A name in the walk that leads to another
// file by now is left alone, and the walk visits that file.
func (f *File) nameOthers(n *regular.Nameless, also []Target) (all places, err error) {
	var to opener
	defer to.close()
	name := func(t Target, asked bool) error {
		in, base, err := to.of(t)
		if err != nil {
			return err
		}
		if !f.leadsTo(in.fd, base) {
			if asked {
				return errChanged
			}
			return nil
		}
		if err := n.Also(in.fd, base); err != nil {
			return f.noNewFile(in.fd, err)
		}
		all = append(all, place{in.retain(), t.Path})
		return nil
	}
	if f.others != nil {
		for _, t := range f.others(f) {
			if err := name(t, false); err != nil {
				return all, fmt.Errorf("its other name %s: %w", t.Path, err)
			}
		}
	}
	for _, t := range also {
		if err := name(t, true); err != nil {
			return all, fmt.Errorf("its other name %s: %w", t.Path, err)
		}
	}
	return all, nil
}

// noNewFile says why there is no new file, if the error tells. at is the directory in which something failed, -1 for
// none.
func (f *File) noNewFile(at int, err error) error {
	var dir unix.Stat_t
	var why string
	switch {
	case errors.Is(err, regular.ErrOwner):
		why = "it would have another owner or group"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		why = "there is no room for it"
	case errors.Is(err, unix.EBUSY):
		why = "it is a mount point"
	case at == -1, !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM):
		return err
	case unix.Faccessat(at, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil:
		why = "the directory may not be written"
	case unix.Fstatat(at, ".", &dir, 0) == nil && dir.Mode&unix.S_ISVTX != 0:
		why = "the directory is sticky, and the file is another's"
	default:
		why = "the directory does not allow it"
	}
	return &NoNewFileError{why, err, !errors.Is(err, unix.EFBIG) && f.mayBeWritten()}
}

// mayBeWritten reports whether [File.Write] could open the file, which it may make writable for that. A file that is
// immutable or being executed cannot be written.
func (f *File) mayBeWritten() bool {
	fd, err := regular.Descriptor(f.dir.fd, f.name, writing)
	if err != nil {
		return errors.Is(err, unix.EACCES) && f.ownReadOnly()
	}
	unix.Close(fd)
	return true
}

// fill gives a new file its contents, and the old file's attributes.
func (f *File) fill(n *regular.Nameless, r *Replacing, apply func(Copy) error) error {
	fd := n.FD()
	if !r.Anew {
		if err := f.copyTo(fd, r.Without); err != nil {
			return fmt.Errorf("copying: %w", err)
		}
	}
	if err := apply(&output{fd: fd}); err != nil {
		return err
	}
	if err := n.Resemble(f.fd, &f.stat, true); err != nil && !errors.Is(err, regular.ErrLabel) {
		return err
	}
	times := []unix.Timespec{f.stat.Atim, {Nsec: unix.UTIME_OMIT}}
	err := unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
	if err != nil { // before Linux 5.8
		err = unix.UtimesNanoAt(unix.AT_FDCWD, regular.ProcPath(fd), times, 0)
	}
	if err != nil && err != unix.ENOENT { // without /proc
		return fmt.Errorf("giving it the file's access time: %w", err)
	}
	if r.Sync {
		if err := regular.Sync(fd); err != nil {
			return fmt.Errorf("writing it to the disk: %w", err)
		}
	}
	// What others wrote to it meanwhile without the lock is partly in the new file. Such a write took the file's
	// privileges away, and the new file must not have them.
	if as, err := f.asOpened(f.fd); err != nil || !as {
		f.changed = true
		return cmp.Or(err, errChanged)
	}
	return nil
}

// noClones is one more than the device on which files could not be cloned; 0 for none.
var noClones atomic.Uint64

// copyTo writes the file's data to an empty file, which shares its blocks if the file system can do that. Holes stay
// holes, and the spans, which are in order, become holes.
func (f *File) copyTo(to int, without []Span) error {
	if dev := f.id().dev + 1; noClones.Load() != dev {
		err := unix.IoctlFileClone(to, f.fd)
		if err == nil {
			return nil
		}
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) {
			noClones.Store(dev)
		}
	}
	size := f.Size()
	at := int64(0)
	for _, span := range append(slices.Clip(without), Span{size, size}) {
		if err := f.copyData(to, at, span.Off); err != nil {
			return err
		}
		at = span.End
	}
	return regular.Uninterrupted(func() error { return unix.Ftruncate(to, size) })
}

// copyData copies everything but holes.
func (c *contents) copyData(to int, at, end int64) error {
	sparse := c.stat.Blocks*512 < c.Size() // stat(2)
	for at < end {
		hole := end
		if sparse {
			if at = c.NextData(at); at >= end {
				break
			}
			if next, err := unix.Seek(c.fd, at, unix.SEEK_HOLE); err == nil && next > at {
				hole = min(next, end)
			}
		}
		if err := c.copyRange(to, at, hole); err != nil {
			return err
		}
		at = hole
	}
	return nil
}

// copyRange copies bytes, in the kernel where that can do it.
func (c *contents) copyRange(to int, off, end int64) error {
	for off < end {
		from, into := off, off
		n, err := unix.CopyFileRange(c.fd, &from, to, &into, int(min(end-off, 1<<30)), 0)
		switch {
		case err == unix.EINTR:
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG), errors.Is(err, unix.EIO):
			return err
		case err != nil || n == 0:
			_, err := io.CopyBuffer(struct{ io.Writer }{io.NewOffsetWriter(&output{fd: to}, off)},
				io.NewSectionReader(&contents{fd: c.fd, stat: c.stat}, off, end-off), make([]byte, min(end-off, 256<<10)))
			return err
		default:
			off += int64(n)
		}
	}
	return nil
}

// Copy is the file that an edit in [File.Replace] writes to. It can be read again, and made sparse.
type Copy interface {
	Writer
	io.ReaderAt
	// Zero makes n bytes zeros; whole pages of them take no room on a file system that knows holes.
	Zero(off, n int64) error
}

func (w *output) ReadAt(p []byte, off int64) (int, error) {
	return (&contents{fd: w.fd}).ReadAt(p, off)
}

// Zero punches a hole, or writes zeros. fallocate(2) fills incomplete pages with zeros.
func (w *output) Zero(off, n int64) error {
	w.wrote = true
	if n == 0 {
		return nil
	}
	err := regular.Uninterrupted(func() error {
		return unix.Fallocate(w.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	zeros := make([]byte, min(n, 1<<20))
	for ; n > 0; n -= int64(len(zeros)) {
		zeros = zeros[:min(n, int64(len(zeros)))]
		if _, err := w.WriteAt(zeros, off); err != nil {
			return err
		}
		off += int64(len(zeros))
	}
	return nil
}
