package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is the error for a name that leads to a directory, a device, a FIFO or a socket.
var ErrNotRegular = errors.New("not a regular file")

// ErrLink is the error for a name that is a symbolic link.
var ErrLink = errors.New("is a symbolic link")

// ErrChanged is the error if a name no longer leads to what was looked at.
var ErrChanged = errors.New("another process changed or replaced it meanwhile; nothing was written")

// descriptors is where the kernel shows this process's own descriptors as links.
const descriptors = "/proc/self/fd"

// OpenAt opens a file for reading, from the directory at, as openat(2) does; O_CLOEXEC is implied. Opening a device
// may do something: a tape is rewound, a watchdog begins to watch, and a FIFO's writer goes on. So only regular files
// are opened. The descriptor of any other is good for fstat(2) alone (O_PATH), so that the caller can refuse it.
func OpenAt(at int, name string, flags int) (fd int, err error) {
	path, err := Descriptor(at, name, unix.O_PATH|flags&unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	err = unix.Fstat(path, &st)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		fd, err = Reopen(path, at, name, unix.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK|flags)
	case unix.S_IFLNK:
		err = unix.ELOOP
	default:
		if err == nil {
			return path, nil
		}
	}
	unix.Close(path)
	return fd, err
}

// ProcPath returns a name of what is open at a descriptor (proc(5), /proc/PID/fd).
func ProcPath(fd int) string { return descriptors + "/" + strconv.Itoa(fd) }

// Open opens the regular file that name leads to, for reading. Links are followed. Use it for
// whatever a tree, a run path or a header names.
func Open(name string) (*os.File, fs.FileInfo, error) { return openIn(unix.AT_FDCWD, name, name, 0) }

// OpenIn is [Open] for the file called base in an open directory. base is never followed:
// for a symbolic link the error is [ErrLink].
func OpenIn(dir *os.File, base string) (*os.File, fs.FileInfo, error) {
	return openIn(int(dir.Fd()), base, filepath.Join(dir.Name(), base), unix.O_NOFOLLOW)
}

// openIn opens what is called base in the directory at; name is what errors call it.
func openIn(at int, base, name string, flags int) (*os.File, fs.FileInfo, error) {
	fd, err := OpenAt(at, base, flags)
	if errors.Is(err, unix.ELOOP) && flags&unix.O_NOFOLLOW != 0 {
		err = ErrLink
	}
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
	}
	return f, info, err
}

// Read returns the contents of the regular file that name leads to, which may have at most
// limit bytes.
func Read(name string, limit int64) ([]byte, error) {
	f, _, err := Open(name)
	if err != nil {
		return nil, err
	}
	return ReadAll(f, name, limit)
}

// ReadIn is Read for the file called base in an open directory, as [OpenIn] opens it. Its second result is for
// [plainfile.ReplaceRead].
func ReadIn(dir *os.File, base string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := OpenIn(dir, base)
	if err != nil {
		return nil, nil, err
	}
	b, err := ReadAll(f, f.Name(), limit)
	return b, info, err
}

// ReadAll is Read for an open file, which it closes. name is what errors call it. It does not rely on the size,
// because files of /proc and /sys say that they are empty.
func ReadAll(f *os.File, name string, limit int64) ([]byte, error) {
	defer f.Close()
	var size int64
	if info, err := f.Stat(); err == nil {
		size = min(info.Size(), limit)
	}
	// Room for all at once, because growing to it would take twice the memory.
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := b.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && int64(b.Len()) > limit {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("is larger than %d bytes", limit)}
	}
	return b.Bytes(), err
}

// OpenDir opens a directory, also one that may not be listed.
func OpenDir(name string) (*os.File, error) {
	dir, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrPermission) {
		dir, err = os.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	return dir, err
}

// SyncDir writes a directory's names through to the disk, if the directory may be listed.
func SyncDir(at int) error {
	fd, err := Descriptor(at, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil //nolint:nilerr // the names are right, and will be written at the kernel's leisure
	}
	defer unix.Close(fd)
	return Sync(fd)
}

// Sync writes a file through to the disk.
func Sync(fd int) error {
	if err := unix.Fsync(fd); err != nil && err != unix.EINVAL { // a file system that cannot
		return err
	}
	return nil
}

// IsFile reports whether a descriptor is of the file that st describes.
func IsFile(fd int, st *unix.Stat_t) bool {
	var now unix.Stat_t
	return unix.Fstat(fd, &now) == nil && now.Dev == st.Dev && now.Ino == st.Ino &&
		now.Mode&unix.S_IFMT == st.Mode&unix.S_IFMT
}

// Reopen opens the file that is open at path (O_PATH) and was called name in the directory at. It opens that very
// file, even if its name was exchanged.
func Reopen(path, at int, name string, flags int) (fd int, err error) {
	fd, err = Descriptor(unix.AT_FDCWD, ProcPath(path), flags&^unix.O_NOFOLLOW)
	if !errors.Is(err, unix.ENOENT) || unix.Access(descriptors, unix.X_OK) == nil {
		return fd, err
	}
	var st unix.Stat_t // without /proc
	if fd, err = Descriptor(at, name, flags); err == nil && (unix.Fstat(path, &st) != nil || !IsFile(fd, &st)) {
		unix.Close(fd)
		err = ErrChanged
	}
	return fd, err
}

// Descriptor is openat(2), repeated after signals; O_CLOEXEC is implied. Use [OpenAt] for what may be a device.
func Descriptor(at int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(at, name, flags|unix.O_CLOEXEC, 0o600)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
