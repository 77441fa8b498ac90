// Package opened makes, opens and changes directories so that nobody who exchanges a name
// meanwhile exchanges anything for us: what is opened once is worked in by that descriptor.
package opened

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/sysroot"
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

var errExchanged = errors.New("was exchanged for something else meanwhile")

// Top opens the directory that a root is. What is done below it is done from there: whoever exchanges names on the
// way exchanges nothing outside.
func Top(root sysroot.Root) (*os.Root, error) {
	before, err := root.Lstat("/")
	if err != nil {
		return nil, err
	}
	top, err := os.OpenRoot(root.Path("/"))
	if err != nil {
		return nil, err
	}
	if now, err := top.Stat("."); err != nil || !os.SameFile(before, now) {
		top.Close()
		return nil, &fs.PathError{Op: "open", Path: root.Path("/"), Err: errExchanged}
	}
	return top, nil
}

// Below opens a directory by a path below an open one, which is without links: what Resolve of a sysroot.Root
// returned. A link that took the place of a directory since is an error. Directories on the way may be such as can be
// searched and not read, as homes are.
func Below(top *os.Root, inside string) (at *os.Root, err error) {
	if inside = strings.Trim(inside, "/"); inside == "" || inside == "." {
		return top.OpenRoot(".")
	}
	err = withFile(top, func(f *os.File) error {
		fd, err := regular.OpenBelow(int(f.Fd()), inside, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return &fs.PathError{Op: "open", Path: inside, Err: err}
		}
		it := os.NewFile(uintptr(fd), inside)
		defer it.Close()
		if at, err = sameAs(it, top, inside); err == nil {
			return nil
		}
		// It is another one meanwhile, or os.Root may not read what is on the way.
		direct := err
		if at, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd)); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w, and there is no /proc to open it by", direct)
		}
		return err
	})
	return at, err
}

// sameAs opens a directory by its path below an open one, if that still leads to what is open already.
func sameAs(it *os.File, top *os.Root, inside string) (*os.Root, error) {
	want, err := it.Stat()
	if err != nil {
		return nil, err
	}
	at, err := top.OpenRoot(inside)
	if err != nil {
		return nil, err
	}
	if now, err := at.Stat("."); err != nil || !os.SameFile(want, now) {
		at.Close()
		return nil, &fs.PathError{Op: "open", Path: inside, Err: errExchanged}
	}
	return at, nil
}

// MakeBelow opens a directory of a system, and makes what is missing of it, each directory of mode 755. Links on the
// way are followed as that system would follow them, so they do not lead out of it. It returns the directory's path
// there, too.
func MakeBelow(root sysroot.Root, dir string) (in *os.Root, at string, err error) {
	top, err := Top(root)
	if err != nil {
		return nil, "", err
	}
	defer top.Close()
	at = "/"
	for _, c := range strings.Split(strings.Trim(path.Clean(dir), "/"), "/") {
		if at, err = makeNext(root, top, path.Join(at, c)); err != nil {
			return nil, "", err
		}
	}
	in, err = Below(top, at)
	return in, at, err
}

// makeNext makes a directory in one that is there, if need be, and returns its path without links.
func makeNext(root sysroot.Root, top *os.Root, next string) (at string, err error) {
	const tries = 100 // another process takes it away and makes it again
	for range tries {
		if at, err = root.Resolve(next); !errors.Is(err, fs.ErrNotExist) {
			return at, err
		}
		if _, lerr := root.Readlink(next); lerr == nil {
			return "", fmt.Errorf("%s: a link that leads nowhere", next)
		}
		in, err := Below(top, path.Dir(next))
		if err != nil {
			return "", err
		}
		err = MakeIn(in, path.Base(next))
		in.Close()
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return at, err
}

// At opens a directory of a system without making anything; the error is fs.ErrNotExist where it is not there.
func At(root sysroot.Root, dir string) (in *os.Root, at string, err error) {
	if at, err = root.Resolve(dir); err != nil {
		return nil, "", err
	}
	top, err := Top(root)
	if err != nil {
		return nil, "", err
	}
	defer top.Close()
	in, err = Below(top, at)
	return in, at, err
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

// withFile calls f with an open directory as a file.
func withFile(dir *os.Root, f func(*os.File) error) error {
	file, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer file.Close()
	return f(file)
}

// Sync writes a directory's entries to the disk.
func Sync(dir *os.Root) error { return withFile(dir, (*os.File).Sync) }

// Exchange lets two names in a directory change places, so that no moment is without either.
func Exchange(dir *os.Root, a, b string) error {
	return withFile(dir, func(f *os.File) error {
		return unix.Renameat2(int(f.Fd()), a, int(f.Fd()), b, unix.RENAME_EXCHANGE)
	})
}

// WriteFile gives a file in an open directory these contents: see [plainfile.Replace].
func WriteFile(dir *os.Root, name string, mode fs.FileMode, b []byte) error {
	return withFile(dir, func(f *os.File) error { return plainfile.Replace(f, name, mode, plainfile.Bytes(b)) })
}

// ReadFile returns the contents of a regular file in an open directory, which is no link: see [regular.ReadIn].
func ReadFile(dir *os.Root, name string, limit int64) (b []byte, read fs.FileInfo, err error) {
	err = withFile(dir, func(f *os.File) error {
		b, read, err = regular.ReadIn(f, name, limit)
		return err
	})
	return b, read, err
}

// WriteRead is WriteFile for a file that was read: see [plainfile.ReplaceRead].
func WriteRead(dir *os.Root, name string, mode fs.FileMode, b []byte, read fs.FileInfo) error {
	return withFile(dir, func(f *os.File) error { return plainfile.ReplaceRead(f, name, mode, plainfile.Bytes(b), read) })
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
