package regular

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	errNotBelow = errors.New("is not a path below the directory")
	errLinked   = errors.New("a symbolic link is on the way to it, which is not followed")
)

// OpenBelow opens what path names below the open directory at, "" for that directory itself. No symbolic link is
// followed, not at the end either, and there are no components "..", "." or "" in path.
// O_CLOEXEC is implied. Component by component: openat2(2) is not in Linux 5.5, nor behind an
// older filter of system calls, and takes no longer path than others.
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
		path += "/." // so that a link to a directory is told from what is none
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
