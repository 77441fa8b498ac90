package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	errNotBelow  = errors.New("is not a path below the directory")
	errLinked    = errors.New("a symbolic link is on the way to it, which is not followed")
	errExchanged = errors.New("was exchanged for something else meanwhile")
)

// OpenBelow opens what path names below the open directory at; "" is that directory itself. It follows no symbolic
// link, not even at the end, and refuses the components "..", "." and "". O_CLOEXEC is implied. It goes component by
// component, because Linux 5.5 and older filters of system calls have no openat2(2), which takes no longer paths
// either.
func OpenBelow(at int, path string, flags int) (fd int, err error) {
	if path == "" {
		return Descriptor(at, ".", flags)
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return -1, errNotBelow
		}
	}
	if flags&unix.O_DIRECTORY != 0 {
		path += "/." // to tell a link to a directory from what is not a directory
	}
	for dir := at; ; dir = fd {
		name, rest, more := strings.Cut(path, "/")
		if more {
			if fd, err = Descriptor(dir, name, unix.O_PATH|unix.O_NOFOLLOW); err == nil {
				err = notLink(fd)
			}
		} else {
			fd, err = Descriptor(dir, name, flags|unix.O_NOFOLLOW)
		}
		if dir != at {
			unix.Close(dir)
		}
		switch {
		case errors.Is(err, unix.ELOOP):
			return -1, errLinked
		case err != nil:
			return -1, err
		case !more:
			return fd, nil
		}
		path = rest
	}
}

// notLink closes what was opened with O_PATH, with ELOOP, if it is a symbolic link.
func notLink(fd int) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		unix.Close(fd)
	}
	return err
}

// RootBelow opens a directory below an open one, like [OpenBelow]. The path is one that Resolve of a sysroot.Root
// returned. Directories on the way may be searchable but not readable, like homes.
func RootBelow(top *os.Root, inside string) (at *os.Root, err error) {
	if inside = strings.Trim(inside, "/"); inside == "" || inside == "." {
		return top.OpenRoot(".")
	}
	err = InRoot(top, func(f *os.File) error {
		fd, err := OpenBelow(int(f.Fd()), inside, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return &fs.PathError{Op: "open", Path: inside, Err: err}
		}
		it := os.NewFile(uintptr(fd), inside)
		defer it.Close()
		at, err = RootOf(it, inside, top.OpenRoot)
		return err
	})
	return at, err
}

// RootOf opens an open directory again. It uses open with the name, or the descriptor if the name leads elsewhere by
// now or the way may not be read.
func RootOf(it *os.File, name string, open func(name string) (*os.Root, error)) (*os.Root, error) {
	want, err := it.Stat()
	if err != nil {
		return nil, err
	}
	at, direct := open(name)
	if direct == nil {
		if now, err := at.Stat("."); err == nil && os.SameFile(want, now) {
			return at, nil
		}
		at.Close()
		direct = &fs.PathError{Op: "open", Path: name, Err: errExchanged}
	}
	if at, err = os.OpenRoot(ProcPath(int(it.Fd()))); errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w, and there is no /proc to open it by", direct)
	}
	return at, err
}

// InRoot calls f with an open directory as an *os.File.
func InRoot(dir *os.Root, f func(*os.File) error) error {
	file, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer file.Close()
	return f(file)
}

// ReadBelow returns the contents of a regular file in an open directory; it must not be a link. See [ReadIn].
func ReadBelow(dir *os.Root, name string, limit int64) (b []byte, read fs.FileInfo, err error) {
	err = InRoot(dir, func(f *os.File) error {
		b, read, err = ReadIn(f, name, limit)
		return err
	})
	return b, read, err
}
