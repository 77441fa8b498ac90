package plainfile

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/regular"
)

// masking is held by who has changed the umask: a process has one, and of two that set it at once the second would
// put back what the first had set.
var masking sync.Mutex

// unmasked calls f, which makes a file or a directory, without a umask: others must be able to enter what root
// installs. So it has its mode from the start; a chmod afterwards could meet what somebody else put under the name.
func unmasked(f func() error) error {
	masking.Lock()
	defer masking.Unlock()
	defer unix.Umask(unix.Umask(0))
	return f()
}

// Make makes a directory of exactly that mode.
func Make(dir string, mode fs.FileMode) error {
	return unmasked(func() error { return os.Mkdir(dir, mode) })
}

// MakeAll makes a directory and what is missing above it, each of exactly that mode.
func MakeAll(dir string, mode fs.FileMode) error {
	return unmasked(func() error { return os.MkdirAll(dir, mode) })
}

// NoExec reports whether a file or directory is on a file system mounted noexec, from which no library can be loaded.
func NoExec(at string) bool {
	var fsys unix.Statfs_t
	return unix.Statfs(at, &fsys) == nil && fsys.Flags&unix.ST_NOEXEC != 0
}

// MakeIn makes a directory of mode 755 in an open one.
func MakeIn(in *os.Root, name string) error {
	return unmasked(func() error { return in.Mkdir(name, 0o755) })
}

// MakeAllIn makes a directory and what is missing above it in an open one, each of mode 755.
func MakeAllIn(in *os.Root, name string) error {
	return unmasked(func() error { return in.MkdirAll(name, 0o755) })
}

// Sync writes a directory's entries to the disk.
func Sync(dir *os.Root) error { return regular.InRoot(dir, (*os.File).Sync) }

// Exchange lets two names in a directory change places, so that no moment is without either.
func Exchange(dir *os.Root, a, b string) error {
	return regular.InRoot(dir, func(f *os.File) error {
		return unix.Renameat2(int(f.Fd()), a, int(f.Fd()), b, unix.RENAME_EXCHANGE)
	})
}

// WriteFile gives a file in an open directory these contents: see [Replace].
func WriteFile(dir *os.Root, name string, mode fs.FileMode, b []byte) error {
	return regular.InRoot(dir, func(f *os.File) error { return Replace(f, name, mode, Bytes(b)) })
}

// WriteRead is WriteFile for a file that was read: see [ReplaceRead].
func WriteRead(dir *os.Root, name string, mode fs.FileMode, b []byte, read fs.FileInfo) error {
	return regular.InRoot(dir, func(f *os.File) error { return ReplaceRead(f, name, mode, Bytes(b), read) })
}

// LockWait is how long one process waits for another one's lock, which may be a stopped one's.
var LockWait = 30 * time.Second

// Lock takes an exclusive lock and reports whether it has it: not where another process keeps it for LockWait. waiting
// is called once, where it is not free at once. Where the file system has no locks, it has it.
func Lock(f *os.File, waiting func()) bool {
	ctx, cancel := context.WithTimeout(context.Background(), LockWait)
	defer cancel()
	return regular.Lock(ctx, int(f.Fd()), LockWait/15, waiting) == nil
}

// OpenLock opens a lock's file in an open directory, and makes it if need be, so that nobody else can open it.
func OpenLock(dir *os.Root, name string) (f *os.File, err error) {
	err = unmasked(func() error {
		f, err = dir.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		return err
	})
	return f, err
}

// Random returns the end of a name that nothing else has.
func Random() string { return fmt.Sprintf("%016x", rand.Uint64()) }
