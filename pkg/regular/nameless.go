package regular

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Temporary begins the name that a file has, if it needs one, until it is put in its place. A file left by a killed
// process is removed by the next process that needs the name, and by [RemoveLeft].
const Temporary = ".cuda-runpath-new."

// TempName returns such a name for base, a different one for each try. Its checksum distinguishes it from a user's
// own file with a similar name, which nobody may remove.
func TempName(try int, base string) string {
	if len(base) > 200 { // a name has at most 255 bytes; only whole characters are cut
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

// A Nameless is a new, locked file in an open directory. It has no name until it is put in its place. If the file
// system cannot do that, it has a name that nothing else has.
type Nameless struct {
	File  *os.File
	fd    int         // of File
	names []temporary // the first is that of its directory
}

// temporary is a name that a file has while it is made and put in the place of base.
type temporary struct {
	at         int // the directory
	base, temp string
	has        bool // the file has that name
}

// NewNameless makes an empty file of mode 600 in the directory at, for the name base there.
func NewNameless(at int, base string) (*Nameless, error) {
	n := &Nameless{names: []temporary{{at: at, base: base}}}
	err := error(unix.EOPNOTSUPP)
	if named() { // else it could get no name
		n.fd, err = Descriptor(at, ".", unix.O_TMPFILE|unix.O_RDWR)
	}
	own := &n.names[0]
	own.has = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL)
	for own.has {
		err = own.claim(func(temp string) (err error) {
			n.fd, err = Descriptor(at, temp, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW)
			return err
		})
		// A process that came before the lock took the file for one left by a killed process.
		var now unix.Stat_t
		if err != nil || Lock(context.Background(), n.fd, 0, nil) != nil || unix.Fstat(n.fd, &now) != nil || now.Nlink > 0 {
			break
		}
		unix.Close(n.fd)
	}
	if err != nil {
		return nil, err
	}
	_ = tryLock(n.fd) // nobody knows it yet
	n.File = os.NewFile(uintptr(n.fd), base)
	return n, nil
}

// named reports whether a file that is open can be given a name.
var named = sync.OnceValue(func() bool { return unix.Access(descriptors, unix.X_OK) == nil })

// claim takes a temporary name with f, which fails with unix.EEXIST if something has it. A file that nobody has
// locked was left by a killed process, and is removed. If it is locked or cannot be removed, claim tries the next
// name.
func (t *temporary) claim(f func(temp string) error) error {
	const tries, patience = 100, 100 * time.Millisecond
	waited := time.Duration(0)
	for try := 0; ; {
		t.temp = TempName(try, t.base)
		err := f(t.temp)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		_, err = RemoveLeft(t.at, t.temp)
		switch wait := time.Millisecond + rand.N(4*time.Millisecond); {
		case err == nil:
			continue
		case errors.Is(err, unix.EWOULDBLOCK) && waited < patience:
			time.Sleep(wait)
			waited += wait
		case try == tries:
			return fmt.Errorf("%s is in the way: %w", t.temp, err)
		default:
			try++
		}
	}
}

// RemoveLeft removes the file with a temporary name from an open directory. The error is unix.EWOULDBLOCK if somebody
// works on it.
func RemoveLeft(at int, name string) (removed bool, err error) {
	left, err := OpenAt(at, name, unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case errors.Is(err, unix.ELOOP): // a link, which no process of ours makes
		return true, unix.Unlinkat(at, name, 0)
	case err != nil:
		return false, err
	}
	defer unix.Close(left) // and with it the lock
	if err := tryLock(left); err != nil {
		return false, err
	}
	return remove(at, name, left)
}

// remove removes a name if it leads to the file open at left, which is locked.
func remove(at int, name string, left int) (removed bool, err error) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !IsFile(left, &st) {
		return false, nil // it is another's by now, or nobody's
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, ErrNotRegular
	}
	err = unix.Unlinkat(at, name, 0)
	return err == nil, err
}

// Link gives the file a name in its directory, and fails with unix.EEXIST if something has that name.
func (n *Nameless) Link(base string) error {
	if err := unix.Fsync(n.fd); err != nil {
		return err
	}
	if err := n.linkTo(n.names[0].at, base); err != nil {
		return err
	}
	return SyncDir(n.names[0].at)
}

// Name gives the file its temporary name, if it has none yet.
func (n *Nameless) Name() error { return n.name(&n.names[0]) }

// Also gives the file, which has its temporary name, another such name in the directory at, where it will replace
// base.
func (n *Nameless) Also(at int, base string) error {
	n.names = append(n.names, temporary{at: at, base: base})
	return n.name(&n.names[len(n.names)-1])
}

func (n *Nameless) name(t *temporary) error {
	if t.has {
		return nil
	}
	err := t.claim(func(temp string) error { return n.linkTo(t.at, temp) })
	t.has = err == nil
	return err
}

// Rename puts the file, which has its temporary names, in one of its places. 0 is the place in its directory, and the
// others are those of Also, in order. The error is [ErrChanged] if replaces is not true of what is there; nil accepts
// anything, or nothing.
func (n *Nameless) Rename(i int, replaces func(*unix.Stat_t) bool) error {
	t := &n.names[i]
	if replaces != nil {
		var now unix.Stat_t
		if unix.Fstatat(t.at, t.base, &now, unix.AT_SYMLINK_NOFOLLOW) != nil || !replaces(&now) {
			return ErrChanged
		}
	}
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Renameat(t.at, t.temp, t.at, t.base)
	}
	t.has = err != nil
	return err
}

// linkTo makes a name in a directory a hard link to the file.
func (n *Nameless) linkTo(at int, name string) error {
	if own := &n.names[0]; own.has {
		return unix.Linkat(own.at, own.temp, at, name, 0)
	}
	return unix.Linkat(unix.AT_FDCWD, ProcPath(n.fd), at, name, unix.AT_SYMLINK_FOLLOW)
}

// FD returns its descriptor.
func (n *Nameless) FD() int { return n.fd }

// Close closes the file, and removes its temporary names.
func (n *Nameless) Close() {
	for i := range n.names {
		if t := &n.names[i]; t.has {
			unix.Unlinkat(t.at, t.temp, 0)
		}
	}
	n.File.Close()
}
