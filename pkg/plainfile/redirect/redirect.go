// Package redirect writes to a name as ">" of a shell does, and keeps what is there until all is written.
package redirect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// Write gives the file that name leads to these contents: links are followed, a device or a FIFO is written to, and a
// file that is not there is made with perm, of which the umask takes away. See [plainfile.Replace] for what is kept.
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
	fd, err := regular.Descriptor(unix.AT_FDCWD, name, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		info, err := os.Lstat(name)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			// Only the kernel knows whether this link may be followed (proc(5), protected_symlinks).
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, perm)
			if err != nil {
				return err
			}
			defer f.Close()
			return plainfile.InPlace(int(f.Fd()), data)
		}
		if strings.HasSuffix(name, "/") {
			return unix.EISDIR
		}
		dir, err := plainfile.OpenDir(filepath.Dir(name))
		if err != nil {
			return err
		}
		defer dir.Close()
		return plainfile.Replace(dir, filepath.Base(name), plainfile.Masked(perm), data)
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		// The name without links, as the kernel has just followed them.
		if real, err := os.Readlink(regular.ProcPath(fd)); err == nil {
			if dir, err := plainfile.OpenDir(filepath.Dir(real)); err == nil {
				defer dir.Close()
				return plainfile.ReplaceRead(dir, filepath.Base(real), perm, data, info)
			}
		}
	}
	// A device or a FIFO, or a file that this process cannot name.
	to, err := regular.Reopen(fd, unix.AT_FDCWD, name, unix.O_WRONLY|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(to), name)
	defer out.Close()
	if info.Mode().IsRegular() {
		return plainfile.InPlace(to, data)
	}
	_, err = out.Write(data)
	return err
}
