package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// OtherLinks returns how many other hard links lead to the file.
func (f *File) OtherLinks() int { return int(max(f.stat.Nlink, 1)) - 1 }

// OutsideLinks returns how many other hard links lead to the file that the walk does not come to. An
// edit of a copy ([File.WriteCopy]) leaves them with the old file.
func (f *File) OutsideLinks() int {
	n := f.OtherLinks()
	if n > 0 && f.others != nil {
		n = max(n-len(f.others(f)), 0)
	}
	return n
}

// WriteCopy edits a copy beside the file, writes it through to the disk and renames it over the
// file; all else is as with [File.Write]. The file's other names in the walk lead to the copy
// afterwards, and so do those that are given, each below a root. No symbolic link below a root is followed.
func (f *File) WriteCopy(also []Target, apply func(Copy) error) error {
	return f.writeCopy(also, func(out *output) error {
		if err := f.CopyTo(out.file); err != nil {
			return fmt.Errorf("copying: %w", err)
		}
		return apply(out)
	})
}

// Rewrite is WriteCopy for what begins with an empty file.
func (f *File) Rewrite(apply func(Copy) error) error {
	return f.writeCopy(nil, func(out *output) error { return apply(out) })
}

// writeCopy edits a copy beside the file, writes it through to the disk and renames it
// over the file. Processes that have the old file mapped keep that. The lock of the old file
// is held until all names lead to the new one, which is locked before it has a name.
func (f *File) writeCopy(also []Target, fill func(*output) error) error {
	f.alone = false
	f.writes = true
	if f.others != nil {
		also = append(f.others(f), also...)
	}
	if err := f.lock(f.fd); err != nil {
		return err
	}
	defer unix.Flock(f.fd, unix.LOCK_UN) //nolint:errcheck // it is, or there are no locks
	dir, base := ".", f.name
	if i := strings.LastIndexByte(f.name, '/'); i >= 0 {
		dir, base = f.name[:i+1], f.name[i+1:]
	}
	at, err := regular.Descriptor(f.dir.fd, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	defer unix.Close(at)
	out, err := regular.NewNameless(at, base)
	if err != nil {
		return fmt.Errorf("making a copy beside it: %w", err)
	}
	defer out.Close()
	if err := f.fillCopy(out.File, fill); err != nil {
		return err
	}
	if err := out.Name(); err != nil {
		return fmt.Errorf("giving the copy a name: %w", err)
	}
	if err := f.replace(at, base, func() error { return out.Rename(base) }); err != nil {
		return err
	}
	var now unix.Stat_t
	if unix.Fstat(int(out.File.Fd()), &now) == nil {
		f.copied = inode{uint64(now.Dev), now.Ino} //nolint:unconvert // as in id
	}
	for _, other := range also {
		if failed := f.relink(at, base, other); failed != nil {
			err = errors.Join(err, fmt.Errorf("making %s a link to the edited copy: %w", other.Path, failed))
		}
	}
	if failed := regular.SyncDir(at); failed != nil {
		err = errors.Join(err, fmt.Errorf("writing the directory to the disk: %w", failed))
	}
	return err
}

// replace renames another file over a name, if that is the file's.
func (f *File) replace(at int, base string, rename func() error) error {
	if !f.leadsTo(at, base) {
		f.changed = true
		return errChanged
	}
	if err := rename(); err != nil {
		return fmt.Errorf("renaming the copy over the file: %w", err)
	}
	return nil
}

// relink makes another name of the file a hard link to what is name in the directory at.
func (f *File) relink(at int, name string, other Target) error {
	var to opener
	defer to.close()
	in, base, err := to.of(other)
	if err != nil {
		return err
	}
	temp := ""
	for try := 1; ; try++ { // 0 is for a copy; a link that a killed edit has left may lead to a file that is locked now
		temp = regular.TempName(try, base)
		if err = unix.Linkat(at, name, in.fd, temp, 0); try == 100 || !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	if err != nil {
		return err
	}
	err = f.replace(in.fd, base, func() error {
		return ignoringEINTR(func() error { return unix.Renameat(in.fd, temp, in.fd, base) })
	})
	if err != nil {
		return errors.Join(err, unix.Unlinkat(in.fd, temp, 0))
	}
	return nil
}

// fillCopy fills out, and gives it what else the file has.
func (f *File) fillCopy(out *os.File, fill func(*output) error) error {
	fd := int(out.Fd())
	if err := fill(&output{fd: fd, file: out}); err != nil {
		return err
	}
	if err := ignoringEINTR(func() error { return unix.Fchown(fd, int(f.stat.Uid), int(f.stat.Gid)) }); err != nil {
		return fmt.Errorf("giving the copy the file's owner: %w", err)
	}
	if err := ignoringEINTR(func() error { return unix.Fchmod(fd, f.stat.Mode&0o7777) }); err != nil {
		return fmt.Errorf("giving the copy the file's mode: %w", err)
	}
	if err := regular.SameAttributes(f.fd, fd); err != nil && !errors.Is(err, regular.ErrLabel) {
		return fmt.Errorf("giving the copy what the file has: %w", err)
	}
	now := unix.Timespec{Nsec: unix.UTIME_OMIT}
	// without /proc
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, regular.ProcPath(fd), []unix.Timespec{f.stat.Atim, now}, 0); err != nil &&
		err != unix.ENOENT {
		return fmt.Errorf("giving the copy the file's access time: %w", err)
	}
	if err := out.Sync(); err != nil {
		return fmt.Errorf("writing the copy to the disk: %w", err)
	}
	// What was written to it meanwhile, by who does not ask for the lock, is in the copy in
	// part. It has taken the file its privileges, and the copy must not have them.
	if as, err := f.asOpened(f.fd); err != nil || !as {
		f.changed = true
		return cmp.Or(err, errChanged)
	}
	return nil
}

// copyData writes the file's data to an empty one, holes left out.
func (c *contents) copyData(to *os.File) error {
	size := c.Size()
	for at := int64(0); at < size; {
		data := c.NextData(at)
		if data >= size {
			break
		}
		hole, err := unix.Seek(c.fd, data, unix.SEEK_HOLE)
		if err != nil || hole <= data {
			hole = size
		}
		hole = min(hole, size)
		if _, err := to.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(to, io.NewSectionReader(c, data, hole-data)); err != nil {
			return err
		}
		at = hole
	}
	return to.Truncate(size)
}

// Copy is what [File.WriteCopy] writes to: it can be read again, and made sparse.
type Copy interface {
	Writer
	io.ReaderAt
	// Zero makes n bytes zeros; whole pages of them take no room on a file system that knows holes.
	Zero(off, n int64) error
}

func (w *output) ReadAt(p []byte, off int64) (int, error) {
	return (&contents{fd: w.fd}).ReadAt(p, off)
}

// Zero punches a hole (fallocate(2): what of a page is not whole is filled with zeros), or writes.
func (w *output) Zero(off, n int64) error {
	w.wrote = true
	if n == 0 {
		return nil
	}
	err := ignoringEINTR(func() error {
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
