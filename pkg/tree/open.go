package tree

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open opens the file that a path leads to, outside of a walk. A symbolic link is
// followed to the file that is then read and written. The caller closes it.
//
// Only of an ELF file the size is known; see [File.ELF].
func Open(path string) (*File, error) {
	f := open(here, path, path, false, new(noatime), make([]byte, headSize))
	if f.Err == unix.ELOOP { // O_NOFOLLOW's word for a link
		at, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, err
		}
		f = open(here, at, path, false, new(noatime), make([]byte, headSize))
	}
	return f, f.Err
}

// Close closes a file that Open returned.
func (f *File) Close() { f.close() }

// Is reports whether st describes this ELF file.
func (f *File) Is(st os.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && uint64(s.Dev) == uint64(f.stat.Dev) && s.Ino == f.stat.Ino
}

// CopyTo writes all of an ELF file to an empty file. Where the file system can, the
// two share their blocks.
func (f *File) CopyTo(to *os.File) error {
	for done := int64(0); done < f.Size(); {
		from := done
		n, err := unix.CopyFileRange(f.fd, &from, int(to.Fd()), nil, int(min(f.Size()-done, 1<<30)), 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 { // not between these two file systems
			_, err := io.Copy(to, io.NewSectionReader(f, done, f.Size()-done))
			return err
		}
		done += int64(n)
	}
	return nil
}
