package tree

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open opens the file that a path leads to, outside of a walk. A symbolic link is
// followed to the file that is then read and written. The caller closes it.
//
// Only of an ELF file the size is known; see [File.ELF].
func Open(path string) (*File, error) {
	buf := heads.Get().(*[headSize]byte)
	f := open(here, path, path, false, &openNoatime, buf[:])
	if errors.Is(f.Err, unix.ELOOP) { // O_NOFOLLOW's word for a link
		at, err := filepath.EvalSymlinks(path)
		if err != nil {
			heads.Put(buf)
			return nil, err
		}
		f = open(here, at, path, false, &openNoatime, buf[:])
	}
	f.pooled = buf
	return f, f.Err
}

// heads are the buffers of files that Open opens, until they are closed.
var heads = sync.Pool{New: func() any { return new([headSize]byte) }}

// openNoatime is for all that Open opens.
var openNoatime noatime

// OpenRegular opens a regular file for reading, and is the way to open whatever a tree,
// a run path or a header names: it does not wait for the writer of a FIFO, and opens no
// device. Links are followed.
func OpenRegular(path string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

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

// CopyTo writes all of an ELF file to an empty file. Where the file system can, the
// two share their blocks.
func (f *File) CopyTo(to *os.File) error {
	if err := unix.IoctlFileClone(int(to.Fd()), f.fd); err == nil {
		return nil
	}
	return f.copyData(to)
}
