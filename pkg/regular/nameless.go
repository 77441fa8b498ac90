package regular

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Temporary is what the names begin with that files have until they are put in their places,
// where they need one. What a killed process has left is removed by the next one that needs the name, and by
// [RemoveLeft].
const Temporary = ".cuda-runpath-new."

// TempName returns such a name in place of base, another one for each try. Its checksum tells it from a user's own file
// of a name like it, which nobody may remove.
func TempName(try int, base string) string {
	if len(base) > 200 { // of the 255 bytes that a name has at most, in whole characters
		base = strings.ToValidUTF8(base[:200], "")
	}
	return fmt.Sprintf("%s%d.%08x.%s", Temporary, try, crc32.ChecksumIEEE([]byte(base)), base)
}

// IsTemporary reports whether TempName returns such a name.
func IsTemporary(name string) bool {
	rest, ok := strings.CutPrefix(name, Temporary)
	if !ok {
		return false
	}
	number, rest, _ := strings.Cut(rest, ".")
	try, err := strconv.Atoi(number)
	_, base, _ := strings.Cut(rest, ".")
	return err == nil && name == TempName(try, base)
}

// A Nameless is a new file in an open directory, locked. It has no name until it is put in its place, or, where the
// file system cannot do that, a name that nothing else has.
type Nameless struct {
	File *os.File
	at   int
	fd   int    // of File
	temp string // the name while it is made and while it is put in its place
	has  bool   // it has that name
}

// NewNameless makes an empty file of mode 600 in the directory at, which is to be called base there.
func NewNameless(at int, base string) (*Nameless, error) {
	n := &Nameless{at: at, temp: TempName(0, base)}
	err := error(unix.EOPNOTSUPP)
	if unix.Access(descriptors, unix.X_OK) == nil { // else it could get no name
		n.fd, err = Descriptor(at, ".", unix.O_TMPFILE|unix.O_RDWR)
	}
	n.has = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL)
	for n.has {
		err = n.claim(func() (err error) {
			n.fd, err = Descriptor(at, n.temp, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW)
			return err
		})
		// Who came before the lock has taken the file for what a killed process left.
		var now unix.Stat_t
		if err != nil || unix.Flock(n.fd, unix.LOCK_EX) != nil || unix.Fstat(n.fd, &now) != nil || now.Nlink > 0 {
			break
		}
		unix.Close(n.fd)
	}
	if err != nil {
		return nil, err
	}
	_ = lock(n.fd) // nobody knows it yet
	n.File = os.NewFile(uintptr(n.fd), base)
	return n, nil
}

// claim takes the temporary name with f, whose error is unix.EEXIST where something has it.
// What a killed process left there is removed: nobody holds its lock.
func (n *Nameless) claim(f func() error) error {
	for wait := time.Millisecond; wait < 4*time.Second; wait *= 2 {
		err := f()
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		if _, err = n.clear(); err == nil {
			continue
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && wait > 10*time.Millisecond { // nobody whom to wait for
			return fmt.Errorf("%s is in the way: %w", n.temp, err)
		}
		time.Sleep(wait + time.Duration(rand.Int64N(int64(wait))))
	}
	return fmt.Errorf("%s is in the way: another process keeps it; is it stopped?", n.temp)
}

// RemoveLeft removes the file with a name that [IsTemporary] from an open directory, if nobody works on it.
func RemoveLeft(at int, name string) (removed bool, err error) {
	removed, err = (&Nameless{at: at, temp: name}).clear()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return removed, err
}

// clear removes what has the temporary name; unix.EWOULDBLOCK where somebody works on it.
func (n *Nameless) clear() (removed bool, err error) {
	left, err := OpenAt(n.at, n.temp, unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case errors.Is(err, unix.ELOOP): // a link, which no process of ours makes
		return true, unix.Unlinkat(n.at, n.temp, 0)
	case err != nil:
		return false, err
	}
	defer unix.Close(left) // and with it the lock
	if err := lock(left); err != nil {
		return false, err
	}
	return n.remove(left)
}

// remove removes the temporary name if it is that of the file open at left, which is locked.
func (n *Nameless) remove(left int) (removed bool, err error) {
	var st unix.Stat_t
	if unix.Fstatat(n.at, n.temp, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !IsFile(left, &st) {
		return false, nil // it is another's by now, or nobody's
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, ErrNotRegular
	}
	err = unix.Unlinkat(n.at, n.temp, 0)
	return err == nil, err
}

// Link gives the file a name that nothing has; unix.EEXIST where something has it.
func (n *Nameless) Link(base string) error {
	if err := unix.Fsync(n.fd); err != nil {
		return err
	}
	if err := n.linkTo(base); err != nil {
		return err
	}
	return SyncDir(n.at)
}

// Name gives the file its temporary name, where it has none yet.
func (n *Nameless) Name() error {
	if n.has {
		return nil
	}
	err := n.claim(func() error { return n.linkTo(n.temp) })
	n.has = err == nil
	return err
}

// Rename puts the file, which has its temporary name, in the place of what is called base in its directory.
func (n *Nameless) Rename(base string) error {
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Renameat(n.at, n.temp, n.at, base)
	}
	n.has = err != nil
	return err
}

// linkTo makes a name in the directory a hard link to the file.
func (n *Nameless) linkTo(name string) error {
	if n.has {
		return unix.Linkat(n.at, n.temp, n.at, name, 0)
	}
	return unix.Linkat(unix.AT_FDCWD, ProcPath(n.fd), n.at, name, unix.AT_SYMLINK_FOLLOW)
}

// FD returns its descriptor.
func (n *Nameless) FD() int { return n.fd }

// Close closes the file, and removes it where it has not got its place.
func (n *Nameless) Close() {
	if n.has {
		unix.Unlinkat(n.at, n.temp, 0)
	}
	n.File.Close()
}

// lock takes the lock of a file, without waiting. Where there are none, it succeeds.
func lock(fd int) error {
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	return nil
}
