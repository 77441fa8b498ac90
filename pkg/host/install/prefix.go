package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
)

// lockName is the lock of a prefix. Only whoever may write the prefix may open it,
// so no other user can keep root waiting.
const lockName = ".lock"

// A prefix is the directory that holds the lib to which a driver link leads. It may not exist.
type prefix struct {
	in   *os.Root // the directory that it is in
	name string   // its name there
	path string   // as messages name it
}

// openPrefix opens the directory that such a one is in, which it may make; nil where that does not exist, and State is
// to hold it.
func openPrefix(h *host.Host, at string, makeIt bool) (*prefix, error) {
	var in *os.Root
	var err error
	if makeIt {
		in, err = made.MakeBelow(h.Root, path.Dir(at))
	} else {
		in, _, err = h.Root.OpenRoot(path.Dir(at))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return &prefix{in: in, name: path.Base(at), path: at}, nil
}

// open opens the prefix; nil where it does not exist.
func (p *prefix) open() (*os.Root, error) {
	dir, err := regular.RootBelow(p.in, p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return dir, err
}

// lock makes the prefix if need be, opens it and waits until no other process works on it. The lock's file goes when
// unlock is called, so that nothing is left.
func (p *prefix) lock() (dir *os.Root, unlock func(), err error) {
	for {
		err := plainfile.MakeIn(p.in, p.name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s: %w", p.path, errGone)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, nil, err
		}
		dir, err := p.open()
		if err != nil {
			return nil, nil, err
		}
		if dir == nil {
			continue // another process has just taken the prefix away
		}
		f, err := plainfile.OpenLock(dir, lockName)
		if errors.Is(err, fs.ErrNotExist) {
			dir.Close()
			continue // as above
		}
		if err != nil {
			dir.Close()
			return nil, nil, err
		}
		if !plainfile.Lock(f, nil) {
			f.Close()
			dir.Close()
			return nil, nil, fmt.Errorf("another process has kept %s for %v; is it stopped?", filepath.Join(p.path, lockName),
				plainfile.LockWait)
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
