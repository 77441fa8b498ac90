package tree

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// Open opens the file that a path leads to, outside of a walk. A symbolic link is
// followed to the file that is then read and written. The caller closes it.
//
// The size is known for ELF files only; see [File.ELF].
func Open(path string) (*File, error) {
	buf := heads.Get().(*[headSize]byte)
	f := open(here, path, path, false, &openNoatime, buf[:])
	if errors.Is(f.Err, unix.ELOOP) { // O_NOFOLLOW's word for a link
		at, err := regular.Real(path)
		if err != nil {
			heads.Put(buf)
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		f = open(here, at, path, false, &openNoatime, buf[:])
	}
	f.pooled = buf
	return f, f.Err
}

// Again opens what now has the name of a file, whose edit may have failed, for reading. The caller closes it; the
// visit of f goes on.
func (f *File) Again() (*File, error) {
	buf := heads.Get().(*[headSize]byte)
	now := open(f.dir, f.name, f.Path, f.follow, &openNoatime, buf[:])
	now.pooled = buf
	if now.Err == nil && !now.ELF() {
		now.fail(errChanged)
	}
	if now.Err != nil {
		now.Close()
	}
	return now, now.Err
}

// heads are the buffers of files that Open has opened and nobody has closed yet.
var heads = sync.Pool{New: func() any { return new([headSize]byte) }}

// openNoatime is for all that Open opens.
var openNoatime noatime

// Close closes a file that Open returned. Its Head is not valid afterwards.
func (f *File) Close() {
	f.close()
	if f.pooled != nil {
		heads.Put(f.pooled)
		f.pooled, f.head, f.buf = nil, nil, nil
	}
}

// Is reports whether st describes this ELF file.
func (f *File) Is(st os.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && s.Dev == f.stat.Dev && s.Ino == f.stat.Ino
}

// ID returns the numbers of device and inode of an ELF file, which tell it from all others.
func (f *File) ID() (dev, ino uint64) {
	id := f.id()
	return id.dev, id.ino
}

// CopyTo writes all of an ELF file to an empty file. The two share their blocks if the file system can do that.
func (f *File) CopyTo(to *os.File) error { return f.copyTo(int(to.Fd()), nil) }

// Unreadable reports whether the walker may not read the file. A directory that cannot be read is a failure of the
// walk instead.
func (f *File) Unreadable() bool {
	if f.Err == nil || !errors.Is(f.Err, fs.ErrPermission) {
		return false
	}
	st, err := os.Lstat(f.Path)
	return err == nil && st.Mode().IsRegular()
}
