package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mkdir makes a directory of exactly that mode, whatever the umask: others must be
// able to enter what root installs.
func mkdir(dir string, mode fs.FileMode) error {
	if err := os.Mkdir(dir, mode); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// mkdirAll makes a directory and what is missing above it, each of exactly that mode.
func mkdirAll(dir string, mode fs.FileMode) error {
	err := mkdir(dir, mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err = mkdirAll(filepath.Dir(dir), mode); err == nil {
			err = mkdir(dir, mode)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// syncDir writes a directory's entries to the disk.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// writeFile puts a file into a place in one rename, on the disk before it is seen.
func writeFile(file string, b []byte, mode fs.FileMode) error {
	fresh := filepath.Join(filepath.Dir(file), ".new-"+random())
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(fresh, file)
	}
	if err != nil {
		os.Remove(fresh)
		return err
	}
	return syncDir(filepath.Dir(file))
}

// flock takes an exclusive lock. Where the file system has none, it does not wait.
func flock(f *os.File) {
	for unix.Flock(int(f.Fd()), unix.LOCK_EX) == unix.EINTR {
	}
}

// lockName is the lock of a prefix. Only whoever may write the prefix may open it,
// so no other user can keep root waiting.
const lockName = ".lock"

// lockPrefix makes a prefix if need be and waits until no other process works on
// it. The lock's file goes when unlock is called, so that nothing is left.
func lockPrefix(dir string) (unlock func(), err error) {
	name := filepath.Join(dir, lockName)
	for {
		if err := mkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has just taken the prefix away
		}
		if err != nil {
			return nil, err
		}
		flock(f)
		// The one that held it may have removed the file: then it locks nobody out.
		mine, err := f.Stat()
		now, nerr := os.Lstat(name)
		if err == nil && nerr == nil && os.SameFile(mine, now) {
			return func() {
				os.Remove(name)
				f.Close()
			}, nil
		}
		f.Close()
	}
}
