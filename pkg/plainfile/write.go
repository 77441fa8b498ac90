package plainfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// errInPlace: what replaces the file cannot be all that it was.
var errInPlace = errors.New("")

// Contents write what a file is to hold, the same each time that they are called. They read nothing from that file.
type Contents func(io.Writer) error

// Bytes are contents that are at hand.
func Bytes(data []byte) Contents {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// Replace gives the file called base in an open directory these contents: at any moment it
// is the old file or the new one, also if this process is killed, and it is on the disk
// before Replace returns. One that is not there is made with exactly the mode perm,
// whatever the umask. Owner, group, mode and extended attributes (ACLs among them) of one
// that is there are kept, but for what lets a program do more than its user may: set-user-ID,
// set-group-ID and capabilities go, as the kernel takes them away with a write.
//
// A file that has other hard links, or whose owner or attributes the caller may not give
// to another file, is written in place, where there is room, and a kill can leave it incomplete: a new file would leave
// the other links with what it was and have another owner, and no system call writes more than a page as a whole.
// Between two system calls, the new file has a name of its own; one that a kill leaves there is removed by the next
// Replace.
//
// base is never followed: for a symbolic link the error is [regular.ErrLink]. What else is no regular
// file is refused with [regular.ErrNotRegular].
func Replace(dir *os.File, base string, perm fs.FileMode, data Contents) error {
	const tries = 100 // another process makes and removes the file all the time
	for range tries {
		err := replace(dir, base, data, nil)
		if errors.Is(err, unix.ENOENT) {
			err = fresh(dir, base, perm, data)
		}
		if !errors.Is(err, regular.ErrChanged) {
			return err
		}
	}
	return regular.ErrChanged
}

// ReplaceRead is Replace for a file whose new contents were made of what [regular.ReadIn] returned with
// read; nil: there was none. One that another process has changed, made or removed since is refused.
func ReplaceRead(dir *os.File, base string, perm fs.FileMode, data Contents, read fs.FileInfo) error {
	if read == nil {
		return fresh(dir, base, perm, data)
	}
	was, ok := read.Sys().(*syscall.Stat_t)
	if !ok {
		return regular.ErrChanged
	}
	st := unix.Stat_t{Dev: was.Dev, Ino: was.Ino, Mode: was.Mode, Size: was.Size, Mtim: unix.Timespec(was.Mtim),
		Ctim: unix.Timespec(was.Ctim)}
	err := replace(dir, base, data, &st)
	if errors.Is(err, unix.ENOENT) {
		err = regular.ErrChanged
	}
	return err
}

// valid refuses what is not one name.
func valid(base string) error {
	if base == "" || base == "." || base == ".." || strings.Contains(base, "/") {
		return unix.EINVAL
	}
	return nil
}

// replace replaces a file that is there, and as expected where that is not nil.
func replace(dir *os.File, base string, data Contents, expected *unix.Stat_t) error {
	if err := valid(base); err != nil {
		return err
	}
	at := int(dir.Fd())
	old, err := regular.Descriptor(at, base, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(old)
	var st unix.Stat_t
	if err := unix.Fstat(old, &st); err != nil {
		return err
	}
	if expected != nil && !same(&st, expected) {
		return regular.ErrChanged
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return regular.ErrLink
	case unix.S_IFDIR:
		return unix.EISDIR
	default:
		return regular.ErrNotRegular
	}
	if st.Nlink <= 1 {
		if err := replaceRegular(at, base, old, &st, data); !errors.Is(err, errInPlace) {
			return err
		}
	}
	to, err := regular.Reopen(old, at, base, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	return inPlace(to, data)
}

// same reports whether a file is the one that it was, and as it was. Nobody can set the time of
// its change back (inode(7), ctime).
func same(now, was *unix.Stat_t) bool {
	return now.Dev == was.Dev && now.Ino == was.Ino && now.Mode&unix.S_IFMT == was.Mode&unix.S_IFMT &&
		now.Size == was.Size && now.Mtim == was.Mtim && now.Ctim == was.Ctim
}

// fresh makes a file that is not there; regular.ErrChanged where it is there by now.
func fresh(dir *os.File, base string, perm fs.FileMode, data Contents) error {
	if err := valid(base); err != nil {
		return err
	}
	at := int(dir.Fd())
	n, err := regular.NewNameless(at, base)
	if err != nil {
		return err
	}
	defer n.Close()
	if err := data(descriptor(n.FD())); err != nil {
		return err
	}
	if err := unix.Fchmod(n.FD(), uint32(perm.Perm())); err != nil {
		return err
	}
	if err = n.Link(base); errors.Is(err, unix.EEXIST) {
		err = regular.ErrChanged
	}
	return err
}

// replaceRegular puts a new file in the place of a regular one, which is open at path (O_PATH);
// errInPlace where the new one cannot be all that the old one is.
func replaceRegular(at int, base string, path int, st *unix.Stat_t, data Contents) error {
	// Who may not write the file may not replace it either, although the directory allows it.
	old, err := regular.Reopen(path, at, base, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if errors.Is(err, unix.EACCES) {
		if old, err = regular.Reopen(path, at, base, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK); err == nil {
			unix.Close(old) // written, but not read: its attributes cannot be seen
			return errInPlace
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(old)
	n, err := regular.NewNameless(at, base)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return errInPlace // in a directory that the caller may not write
	}
	if err != nil {
		return err
	}
	defer n.Close()
	if err := data(descriptor(n.FD())); err != nil {
		return err
	}
	if n.Resemble(old, st, false) != nil {
		return errInPlace
	}
	return rename(n, at, base, st)
}

// rename puts a new file in the place of the one that st describes, in the directory at.
func rename(n *regular.Nameless, at int, base string, st *unix.Stat_t) error {
	if err := unix.Fsync(n.FD()); err != nil {
		return err
	}
	if err := n.Name(); err != nil {
		return err
	}
	switch err := n.Rename(0, func(now *unix.Stat_t) bool { return same(now, st) }); err {
	case nil:
	case unix.EPERM, unix.EACCES:
		return errInPlace // another user's file in a sticky directory
	default:
		return err
	}
	var now unix.Stat_t
	if unix.Fstatat(at, base, &now, unix.AT_SYMLINK_NOFOLLOW) == nil && !regular.IsFile(n.FD(), &now) {
		return regular.ErrChanged
	}
	return regular.SyncDir(at)
}

// inPlace overwrites a regular file that is open, if its contents can be made and there is room for all of them.
func inPlace(fd int, data Contents) error {
	var size count
	if err := data(&size); err != nil {
		return err
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && uint64(size) > limit.Cur {
		return unix.EFBIG
	}
	if size > 0 {
		err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, int64(size))
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) { // any other: it has no such call
			return err
		}
	}
	if err := data(descriptor(fd)); err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return err
	}
	return regular.Sync(fd)
}

// count counts what is written to it.
type count int64

func (n *count) Write(b []byte) (int, error) {
	*n += count(len(b))
	return len(b), nil
}

// descriptor is what is written to, whatever signals come.
type descriptor int

func (fd descriptor) Write(b []byte) (done int, err error) {
	for done < len(b) && err == nil {
		n, failed := unix.Write(int(fd), b[done:])
		if done += max(n, 0); failed != unix.EINTR {
			err = failed
		}
	}
	return done, err
}

// Masked returns the mode that the umask leaves of one, for [Replace].
func Masked(perm fs.FileMode) fs.FileMode { return perm &^ umask() }

// umask returns the bits that new files do not get. There is no way to
// read them that does not set them, but /proc. A thread can have others than the first one (clone(2), CLONE_FS).
func umask() fs.FileMode {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			var mask uint32
			if n, _ := fmt.Sscanf(line, "Umask:\t%o", &mask); n == 1 {
				return fs.FileMode(mask)
			}
		}
	}
	return 0o022
}
