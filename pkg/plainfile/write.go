package plainfile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLink is the error of [Replace] for a name that is a symbolic link.
var ErrLink = errors.New("is a symbolic link")

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

// descriptors is where the kernel shows this process's own descriptors as links.
const descriptors = "/proc/self/fd"

var (
	errChanged = errors.New("was changed or exchanged by another process meanwhile; nothing was written")
	errInPlace = errors.New("") // what replaces the file cannot be all that it was
)

// Write gives the file that name leads to these contents, as ">" of a shell would: links
// are followed, a device or a FIFO is written to, and a file that is not there is made
// with perm, of which the umask takes away. See [Replace] for what is kept.
func Write(name string, perm fs.FileMode, data []byte) error {
	if err := write(name, perm, data); err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // of a name that nobody gave
		}
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

func write(name string, perm fs.FileMode, data []byte) error {
	fd, err := open(unix.AT_FDCWD, name, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		info, err := os.Lstat(name)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			// Only the kernel knows whether this link may be followed (proc(5), protected_symlinks).
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, perm)
			if err != nil {
				return err
			}
			defer f.Close()
			return inPlace(int(f.Fd()), data)
		}
		if strings.HasSuffix(name, "/") {
			return unix.EISDIR
		}
		dir, err := OpenDir(filepath.Dir(name))
		if err != nil {
			return err
		}
		defer dir.Close()
		return Replace(dir, filepath.Base(name), Masked(perm), data)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		// The name without links, as the kernel has just followed them.
		if real, err := os.Readlink(ProcPath(fd)); err == nil {
			if dir, err := OpenDir(filepath.Dir(real)); err == nil {
				defer dir.Close()
				return replace(dir, filepath.Base(real), data, &st)
			}
		}
	}
	// A device or a FIFO, or a file that this process cannot name.
	to, err := reopen(fd, unix.AT_FDCWD, name, unix.O_WRONLY|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return writeAll(to, data)
	}
	return inPlace(to, data)
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
// base is never followed: for a symbolic link the error is [ErrLink]. What else is no regular
// file is refused with [ErrNotRegular].
func Replace(dir *os.File, base string, perm fs.FileMode, data []byte) error {
	const tries = 100 // another process makes and removes the file all the time
	for range tries {
		err := replace(dir, base, data, nil)
		if errors.Is(err, unix.ENOENT) {
			err = fresh(dir, base, perm, data)
		}
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return errChanged
}

// ReplaceRead is Replace for a file whose new contents were made of what [ReadIn] returned with
// read; nil: there was none. One that another process has changed, made or removed since is refused.
func ReplaceRead(dir *os.File, base string, perm fs.FileMode, data []byte, read fs.FileInfo) error {
	if read == nil {
		return fresh(dir, base, perm, data)
	}
	was, ok := read.Sys().(*syscall.Stat_t)
	if !ok {
		return errChanged
	}
	st := unix.Stat_t{Dev: was.Dev, Ino: was.Ino, Mode: was.Mode, Size: was.Size, Mtim: unix.Timespec(was.Mtim),
		Ctim: unix.Timespec(was.Ctim)}
	err := replace(dir, base, data, &st)
	if errors.Is(err, unix.ENOENT) {
		err = errChanged
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
func replace(dir *os.File, base string, data []byte, expected *unix.Stat_t) error {
	if err := valid(base); err != nil {
		return err
	}
	at := int(dir.Fd())
	old, err := open(at, base, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(old)
	var st unix.Stat_t
	if err := unix.Fstat(old, &st); err != nil {
		return err
	}
	if expected != nil && !same(&st, expected) {
		return errChanged
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return ErrLink
	case unix.S_IFDIR:
		return unix.EISDIR
	default:
		return ErrNotRegular
	}
	if st.Nlink <= 1 {
		if err := replaceRegular(at, base, old, &st, data); !errors.Is(err, errInPlace) {
			return err
		}
	}
	to, err := reopen(old, at, base, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
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

// fresh makes a file that is not there; errChanged where it is there by now.
func fresh(dir *os.File, base string, perm fs.FileMode, data []byte) error {
	if err := valid(base); err != nil {
		return err
	}
	at := int(dir.Fd())
	n, err := NewNameless(at, base)
	if err != nil {
		return err
	}
	defer n.Close()
	if err := writeAll(n.fd, data); err != nil {
		return err
	}
	if err := unix.Fchmod(n.fd, uint32(perm.Perm())); err != nil {
		return err
	}
	if err = n.link(base); errors.Is(err, unix.EEXIST) {
		err = errChanged
	}
	return err
}

// replaceRegular puts a new file in the place of a regular one, which is open at path (O_PATH);
// errInPlace where the new one cannot be all that the old one is.
func replaceRegular(at int, base string, path int, st *unix.Stat_t, data []byte) error {
	// Who may not write the file may not replace it either, although the directory allows it.
	old, err := reopen(path, at, base, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if errors.Is(err, unix.EACCES) {
		if old, err = reopen(path, at, base, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK); err == nil {
			unix.Close(old) // written, but not read: its attributes cannot be seen
			return errInPlace
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(old)
	n, err := NewNameless(at, base)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return errInPlace // in a directory that the caller may not write
	}
	if err != nil {
		return err
	}
	defer n.Close()
	if err := writeAll(n.fd, data); err != nil {
		return err
	}
	if unix.Fchown(n.fd, int(st.Uid), int(st.Gid)) != nil || unix.Fchmod(n.fd, st.Mode&0o1777) != nil ||
		SameAttributes(old, n.fd) != nil {
		return errInPlace
	}
	// Who may not remove them may not where there are none, either.
	if _, err := unix.Fgetxattr(n.fd, "security.capability", nil); err == nil &&
		unix.Fremovexattr(n.fd, "security.capability") != nil {
		return errInPlace
	}
	return n.rename(base, st)
}

// ErrLabel is the error where all is the same but the label of SELinux, which not everybody may set.
var ErrLabel = errors.New("its label cannot be set")

// SameAttributes gives a file the extended attributes of another one, and takes away those that
// it got from its directory, such as an ACL (acl(5), "OBJECT CREATION AND DEFAULT ACLs"). Owner
// and mode come before: a change of owner takes capabilities away, and one of mode changes an ACL.
func SameAttributes(from, to int) error {
	var label error
	want, err := attributes(from)
	if err != nil {
		return err
	}
	have, err := attributes(to)
	if err != nil {
		return err
	}
	for name, value := range want {
		if string(have[name]) == string(value) {
			continue
		}
		if err := unix.Fsetxattr(to, name, value, 0); err != nil {
			if name == "security.selinux" {
				label = ErrLabel
				continue
			}
			return fmt.Errorf("the extended attribute %s: %w", name, err)
		}
	}
	for name := range have {
		if _, wanted := want[name]; wanted || strings.HasPrefix(name, "security.") { // labels, which the kernel sets
			continue
		}
		if err := unix.Fremovexattr(to, name); err != nil {
			return fmt.Errorf("the extended attribute %s of the directory: %w", name, err)
		}
	}
	return label
}

// attributes returns a file's extended attributes; none where the file system has none.
func attributes(fd int) (map[string][]byte, error) {
	names := make([]byte, 64<<10) // XATTR_LIST_MAX
	n, err := unix.Flistxattr(fd, names)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, name := range strings.Split(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		value := make([]byte, 64<<10) // XATTR_SIZE_MAX
		n, err := unix.Fgetxattr(fd, name, value)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[name] = value[:n]
	}
	return all, nil
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
		n.fd, err = open(at, ".", unix.O_TMPFILE|unix.O_RDWR)
	}
	n.has = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL)
	for n.has {
		err = n.claim(func() (err error) {
			n.fd, err = open(at, n.temp, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW)
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
	if unix.Fstatat(n.at, n.temp, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !sameFile(left, &st) {
		return false, nil // it is another's by now, or nobody's
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, ErrNotRegular
	}
	err = unix.Unlinkat(n.at, n.temp, 0)
	return err == nil, err
}

// link gives the file a name that nothing has; unix.EEXIST where something has it.
func (n *Nameless) link(base string) error {
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

// rename puts the file in the place of the one that st describes.
func (n *Nameless) rename(base string, st *unix.Stat_t) error {
	if err := unix.Fsync(n.fd); err != nil {
		return err
	}
	if err := n.Name(); err != nil {
		return err
	}
	var now unix.Stat_t
	if err := unix.Fstatat(n.at, base, &now, unix.AT_SYMLINK_NOFOLLOW); err != nil || !same(&now, st) {
		return errChanged
	}
	switch err := n.Rename(base); err {
	case nil:
	case unix.EPERM, unix.EACCES:
		return errInPlace // another user's file in a sticky directory
	default:
		return err
	}
	if unix.Fstatat(n.at, base, &now, unix.AT_SYMLINK_NOFOLLOW) == nil && !sameFile(n.fd, &now) {
		return errChanged
	}
	return SyncDir(n.at)
}

// linkTo makes a name in the directory a hard link to the file.
func (n *Nameless) linkTo(name string) error {
	if n.has {
		return unix.Linkat(n.at, n.temp, n.at, name, 0)
	}
	return unix.Linkat(unix.AT_FDCWD, ProcPath(n.fd), n.at, name, unix.AT_SYMLINK_FOLLOW)
}

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

// inPlace overwrites a regular file, if there is room for all of it.
func inPlace(fd int, data []byte) error {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && uint64(len(data)) > limit.Cur {
		return unix.EFBIG
	}
	if len(data) > 0 {
		err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(data)))
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) { // any other: it has no such call
			return err
		}
	}
	if err := writeAll(fd, data); err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, int64(len(data))); err != nil {
		return err
	}
	return sync(fd)
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// OpenDir opens a directory, also one that may not be listed.
func OpenDir(name string) (*os.File, error) {
	dir, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrPermission) {
		dir, err = os.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	return dir, err
}

// Stream makes the file called name, or replaces what has that name, with what fill writes and the mode perm, less the
// umask: as a whole, or not at all. What was there loses owner and attributes; it is for what is made, and not edited.
func Stream(name string, perm fs.FileMode, fill func(io.Writer) error) error {
	dir, err := OpenDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	base := filepath.Base(name)
	if err := valid(base); err != nil {
		return err
	}
	n, err := NewNameless(int(dir.Fd()), base)
	if err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	defer n.Close()
	if err = fill(n.File); err == nil {
		err = n.File.Chmod(Masked(perm))
	}
	if err == nil {
		err = unix.Fsync(n.fd)
	}
	if err == nil {
		err = n.Name()
	}
	if err == nil {
		err = n.Rename(base)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return SyncDir(n.at)
}

// SyncDir writes a directory's names through to the disk, where it may be listed.
func SyncDir(at int) error {
	fd, err := open(at, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil //nolint:nilerr // the names are right, and will be written at the kernel's leisure
	}
	defer unix.Close(fd)
	return sync(fd)
}

// sync writes a file through to the disk.
func sync(fd int) error {
	if err := unix.Fsync(fd); err != nil && err != unix.EINVAL { // a file system that cannot
		return err
	}
	return nil
}

func sameFile(fd int, st *unix.Stat_t) bool {
	var now unix.Stat_t
	return unix.Fstat(fd, &now) == nil && now.Dev == st.Dev && now.Ino == st.Ino &&
		now.Mode&unix.S_IFMT == st.Mode&unix.S_IFMT
}

// reopen opens the file that is open at path (O_PATH), and was called name in the directory at:
// that very one, whoever has exchanged its name.
func reopen(path, at int, name string, flags int) (fd int, err error) {
	fd, err = open(unix.AT_FDCWD, ProcPath(path), flags&^unix.O_NOFOLLOW)
	if !errors.Is(err, unix.ENOENT) || unix.Access(descriptors, unix.X_OK) == nil {
		return fd, err
	}
	var st unix.Stat_t // without /proc
	if fd, err = open(at, name, flags); err == nil && (unix.Fstat(path, &st) != nil || !sameFile(fd, &st)) {
		unix.Close(fd)
		err = errChanged
	}
	return fd, err
}

func open(at int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(at, name, flags|unix.O_CLOEXEC, 0o600)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Masked returns the mode that the umask leaves of one, for [Replace].
func Masked(perm fs.FileMode) fs.FileMode { return perm &^ umask() }

// umask returns the bits that new files of this process do not get. There is no way to
// read them that does not set them, but /proc.
func umask() fs.FileMode {
	status, err := os.ReadFile("/proc/self/status")
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
