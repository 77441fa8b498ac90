package plainfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is the error for a name that leads to a directory, a device, a FIFO or a socket.
var ErrNotRegular = errors.New("is not a regular file")

// Open opens the regular file that name leads to, for reading. Links are followed. It does
// not wait for the writer of a FIFO, and reads no device: use it for whatever a tree, a run
// path or a header names.
func Open(name string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := regular(f)
	return f, info, err
}

// regular describes a file that was opened. It closes one that is not a regular file.
func regular(f *os.File) (fs.FileInfo, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
	}
	return info, err
}

// Read returns the contents of the regular file that name leads to, which may have at most
// limit bytes.
func Read(name string, limit int64) ([]byte, error) {
	f, _, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("is larger than %d bytes", limit)}
	}
	return b, err
}

// OpenIn is [Open] for the file called base in an open directory. base is never followed:
// for a symbolic link the error is [ErrLink].
func OpenIn(dir *os.File, base string) (*os.File, fs.FileInfo, error) {
	fd, err := open(int(dir.Fd()), base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if errors.Is(err, unix.ELOOP) {
		err = ErrLink
	}
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	f := os.NewFile(uintptr(fd), base)
	info, err := regular(f)
	return f, info, err
}
