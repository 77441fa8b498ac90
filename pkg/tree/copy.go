package tree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// OtherLinks returns how many other hard links lead to the file. An edit of a copy
// (Options.Copy) leaves them with the old file.
func (f *File) OtherLinks() int { return int(max(f.stat.Nlink, 1)) - 1 }

// WriteCopy is [File.Write] with Options.Copy.
func (f *File) WriteCopy(apply func(Writer) error) error {
	if f.ctx != nil {
		_ = f.ctx.Err() // as in Write
	}
	return f.writeCopy(apply)
}

// Relink makes other names, each below a root, hard links to a file, whatever they were
// before. No symbolic link below a root is followed.
func Relink(file Target, names []Target) error {
	var from, to opener
	defer from.close()
	defer to.close()
	in, name, err := from.of(file)
	if err != nil {
		return err
	}
	var errs []error
	for i, other := range names {
		at, base, err := to.of(other)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", other.Path, err))
			continue
		}
		temp := fmt.Sprintf("%s%d.link%d.%.100s", copyName, os.Getpid(), i, base)
		err = ignoringEINTR(func() error { return unix.Linkat(in.fd, name, at.fd, temp, 0) })
		if err == nil {
			if err = ignoringEINTR(func() error { return unix.Renameat(at.fd, temp, at.fd, base) }); err != nil {
				err = errors.Join(err, unix.Unlinkat(at.fd, temp, 0))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("making %s a link to the edited copy: %w", other.Path, err))
		}
	}
	return errors.Join(errs...)
}

// copyName is the beginning of the name of a copy that is being edited.
const copyName = ".runpath-copy."

// writeCopy edits a copy beside the file, writes it through to the disk and renames it
// over the file. Processes that have the old file mapped keep that.
func (f *File) writeCopy(apply func(Writer) error) error {
	f.writes = true
	lock, err := openat(f.dir.fd, f.name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	defer unix.Close(lock)
	if err := f.lock(lock); err != nil {
		return err
	}
	dir, base := "", f.name
	if i := strings.LastIndexByte(f.name, '/'); i >= 0 {
		dir, base = f.name[:i+1], f.name[i+1:]
	}
	var temp string
	var fd int
	for try := 0; ; try++ {
		temp = fmt.Sprintf("%s%s%d.%d.%.100s", dir, copyName, os.Getpid(), try, base)
		fd, err = unix.Openat(f.dir.fd, temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EEXIST) && try < 100 {
			continue
		}
		if err != nil {
			return fmt.Errorf("making a copy beside it: %w", err)
		}
		break
	}
	out := os.NewFile(uintptr(fd), temp)
	defer out.Close()
	if err := f.fillCopy(out, apply); err != nil {
		return errors.Join(err, ignoringEINTR(func() error { return unix.Unlinkat(f.dir.fd, temp, 0) }))
	}
	if err := ignoringEINTR(func() error { return unix.Renameat(f.dir.fd, temp, f.dir.fd, f.name) }); err != nil {
		return errors.Join(fmt.Errorf("renaming the copy over the file: %w", err), unix.Unlinkat(f.dir.fd, temp, 0))
	}
	return syncDir(f.dir.fd, dir)
}

// fillCopy makes out what the file is, edits it, and gives it what else the file has.
func (f *File) fillCopy(out *os.File, apply func(Writer) error) error {
	if err := f.CopyTo(out); err != nil {
		return fmt.Errorf("copying: %w", err)
	}
	fd := int(out.Fd())
	if err := apply(&output{fd: fd}); err != nil {
		return err
	}
	if err := ignoringEINTR(func() error { return unix.Fchown(fd, int(f.stat.Uid), int(f.stat.Gid)) }); err != nil {
		return fmt.Errorf("giving the copy the file's owner: %w", err)
	}
	if err := ignoringEINTR(func() error { return unix.Fchmod(fd, f.stat.Mode&0o7777) }); err != nil {
		return fmt.Errorf("giving the copy the file's mode: %w", err)
	}
	if err := copyAttributes(f.fd, fd); err != nil { // ACLs and capabilities among them, so after owner and mode
		return err
	}
	now := unix.Timespec{Nsec: unix.UTIME_OMIT}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{f.stat.Atim, now}, 0); err != nil && err != unix.ENOENT { // without /proc
		return fmt.Errorf("giving the copy the file's access time: %w", err)
	}
	if err := out.Sync(); err != nil {
		return fmt.Errorf("writing the copy to the disk: %w", err)
	}
	return nil
}

// copyAttributes copies extended attributes. Those of the security and trusted
// namespaces that the caller may not set, and that the copy has the same anyway or
// the kernel sets itself (a label), are not an error; a lost capability or ACL is.
func copyAttributes(from, to int) error {
	size, err := unix.Flistxattr(from, nil)
	if err != nil || size == 0 {
		return nil //nolint:nilerr // a file system without any
	}
	names := make([]byte, size)
	if size, err = unix.Flistxattr(from, names); err != nil {
		return fmt.Errorf("reading extended attributes: %w", err)
	}
	for _, name := range strings.Split(strings.TrimRight(string(names[:size]), "\x00"), "\x00") {
		n, err := unix.Fgetxattr(from, name, nil)
		if err != nil {
			continue
		}
		value := make([]byte, n)
		if n, err = unix.Fgetxattr(from, name, value); err != nil {
			continue
		}
		if err := unix.Fsetxattr(to, name, value[:n], 0); err != nil && name != "security.selinux" {
			return fmt.Errorf("giving the copy the attribute %s: %w", name, err)
		}
	}
	return nil
}

// syncDir writes a renamed name through to the disk.
func syncDir(at int, path string) error {
	if path == "" {
		path = "."
	}
	fd, err := openat(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	defer unix.Close(fd)
	if err := ignoringEINTR(func() error { return unix.Fsync(fd) }); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("writing the directory to the disk: %w", err)
	}
	return nil
}

// copyData writes the file's data to an empty one, holes left out.
func (f *File) copyData(to *os.File) error {
	size := f.Size()
	for at := int64(0); at < size; {
		data, err := unix.Seek(f.fd, at, unix.SEEK_DATA)
		switch {
		case err == unix.ENXIO: // nothing but a hole
			data = size
		case err != nil: // a file system that does not tell
			data = at
		}
		if data >= size {
			break
		}
		hole, err := unix.Seek(f.fd, data, unix.SEEK_HOLE)
		if err != nil || hole <= data {
			hole = size
		}
		hole = min(hole, size)
		if _, err := to.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(to, io.NewSectionReader(f, data, hole-data)); err != nil {
			return err
		}
		at = hole
	}
	return to.Truncate(size)
}
