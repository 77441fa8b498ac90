package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/sysroot"
)

// unmasked calls f, which makes a file or a directory, without a umask: others must be able to enter what root installs.
// So it has its mode from the start; a chmod afterwards could meet what somebody else put under the name.
func unmasked(f func() error) error {
	defer unix.Umask(unix.Umask(0))
	return f()
}

// mkdir makes a directory of exactly that mode.
func mkdir(dir string, mode fs.FileMode) error {
	return unmasked(func() error { return os.Mkdir(dir, mode) })
}

// mkdirAll makes a directory and what is missing above it, each of exactly that mode.
func mkdirAll(dir string, mode fs.FileMode) error {
	return unmasked(func() error { return os.MkdirAll(dir, mode) })
}

var errExchanged = errors.New("was exchanged for something else meanwhile")

// openTop opens the directory that a root is. What is done below it is done from there: whoever exchanges names on the
// way exchanges nothing outside.
func openTop(root sysroot.Root) (*os.Root, error) { return os.OpenRoot(root.Path("/")) }

// openBelow opens a directory by a path below an open one, which is without links: what Resolve of a sysroot.Root
// returned. A link that took the place of a directory since is an error.
func openBelow(top *os.Root, inside string) (*os.Root, error) {
	at, err := top.OpenRoot(".")
	for name := range strings.SplitSeq(strings.Trim(inside, "/"), "/") {
		if err != nil || name == "" {
			break
		}
		above := at
		at, err = enter(above, name)
		above.Close()
	}
	return at, err
}

// enter opens a directory in an open one. A link is not followed.
func enter(in *os.Root, name string) (*os.Root, error) {
	before, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ENOTDIR}
	}
	dir, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	now, err := dir.Stat(".")
	if err == nil && !os.SameFile(before, now) {
		err = &fs.PathError{Op: "open", Path: name, Err: errExchanged}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// mkdirIn makes a directory of mode 755 in an open one.
func mkdirIn(in *os.Root, name string) error {
	return unmasked(func() error { return in.Mkdir(name, 0o755) })
}

// mkdirBelow makes a directory of mode 755 in one by a path as for openBelow.
func mkdirBelow(top *os.Root, inside, name string) error {
	in, err := openBelow(top, inside)
	if err != nil {
		return err
	}
	defer in.Close()
	return mkdirIn(in, name)
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

// syncDir writes a directory's entries to the disk.
func syncDir(dir *os.Root) error { return withFile(dir, (*os.File).Sync) }

// exchange lets two names in a directory change places, so that no moment is without either.
func exchange(dir *os.Root, a, b string) error {
	return withFile(dir, func(f *os.File) error {
		return unix.Renameat2(int(f.Fd()), a, int(f.Fd()), b, unix.RENAME_EXCHANGE)
	})
}

// writeFile gives a file in an open directory these contents: see [plainfile.Replace].
func writeFile(dir *os.Root, name string, mode fs.FileMode, b []byte) error {
	return withFile(dir, func(f *os.File) error { return plainfile.Replace(f, name, mode, b) })
}

// lockWait is how long one process waits for another one's lock, which may be a stopped one's.
var lockWait = 30 * time.Second

// lock takes an exclusive lock and reports whether it has it: not where another process keeps it for lockWait. waiting
// is called once, where it is not free at once. Where the file system has no locks, it has it.
func lock(f *os.File, waiting func()) bool {
	began := time.Now()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return true
		}
		waited := time.Since(began)
		if waited > lockWait {
			return false
		}
		if waited > lockWait/15 && waiting != nil {
			waiting()
			waiting = nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// openLock opens a lock's file in an open directory, and makes it if need be, so that nobody else can open it.
func openLock(dir *os.Root, name string) (f *os.File, err error) {
	err = unmasked(func() error {
		f, err = dir.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		return err
	})
	return f, err
}

// lockName is the lock of a prefix. Only whoever may write the prefix may open it,
// so no other user can keep root waiting.
const lockName = ".lock"

// A prefix is the directory that holds the driver link. It may not exist.
type prefix struct {
	in   *os.Root // the directory that it is in
	name string   // its name there
	path string   // as messages name it
}

// open opens the prefix; nil where it does not exist.
func (p *prefix) open() (*os.Root, error) {
	dir, err := enter(p.in, p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return dir, err
}

// lock makes the prefix if need be, opens it and waits until no other process works on it. The lock's file goes when
// unlock is called, so that nothing is left.
func (p *prefix) lock() (dir *os.Root, unlock func(), err error) {
	for {
		if err := mkdirIn(p.in, p.name); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, nil, err
		}
		dir, err := p.open()
		if err != nil {
			return nil, nil, err
		}
		if dir == nil {
			continue // another process has just taken the prefix away
		}
		f, err := openLock(dir, lockName)
		if errors.Is(err, fs.ErrNotExist) {
			dir.Close()
			continue // as above
		}
		if err != nil {
			dir.Close()
			return nil, nil, err
		}
		if !lock(f, nil) {
			f.Close()
			dir.Close()
			return nil, nil, fmt.Errorf("another process has kept %s for %v; is it stopped?", filepath.Join(p.path, lockName), lockWait)
		}
		// The one that held it may have removed the file: then it locks nobody out.
		mine, err := f.Stat()
		now, nerr := dir.Lstat(lockName)
		if err == nil && nerr == nil && os.SameFile(mine, now) {
			return dir, func() {
				_ = dir.Remove(lockName)
				f.Close()
				dir.Close()
			}, nil
		}
		f.Close()
		dir.Close()
	}
}
