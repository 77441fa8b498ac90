package plainfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// Write gives the file that name leads to these contents, as ">" of a shell does: links are followed, a device or a FIFO is written to, and a
// file that is not there is made with perm, of which the umask takes away. See [Replace] for what is kept.
func Write(name string, perm fs.FileMode, data []byte) error {
	o, err := OpenOutput(name, perm)
	if err != nil {
		return err
	}
	defer o.Close()
	return o.Write(Bytes(data))
}

// An Output is what a name leads to, for contents that are made bit by bit.
type Output struct {
	name string
	perm fs.FileMode
	file *os.File    // what is there (O_PATH); nil: nothing
	info fs.FileInfo // of file
	dir  *os.File
	base string // in dir; "": what is there is written to as it is
}

// OpenOutput looks where a name leads, and writes nothing. The output is to be closed.
func OpenOutput(name string, perm fs.FileMode) (*Output, error) {
	o := &Output{name: name, perm: perm}
	if err := o.open(); err != nil {
		o.Close()
		return nil, o.failed(err)
	}
	return o, nil
}

func (o *Output) open() error {
	fd, err := regular.Descriptor(unix.AT_FDCWD, o.name, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		if info, err := os.Lstat(o.name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil
		}
		if strings.HasSuffix(o.name, "/") {
			return unix.EISDIR
		}
		o.base = filepath.Base(o.name)
		o.dir, err = regular.OpenDir(filepath.Dir(o.name))
		return err
	}
	if err != nil {
		return err
	}
	o.file = os.NewFile(uintptr(fd), o.name)
	if o.info, err = o.file.Stat(); err == nil && o.info.IsDir() {
		err = unix.EISDIR
	}
	if err != nil || !o.info.Mode().IsRegular() {
		return err
	}
	// The name without links, as the kernel has just followed them; it may be none that this process can name.
	if real, err := regular.RealOf(fd, o.name); err == nil {
		if o.dir, err = regular.OpenDir(filepath.Dir(real)); err == nil {
			o.base = filepath.Base(real)
		}
	}
	return nil
}

// Info describes the file that is there; nil: there is none.
func (o *Output) Info() fs.FileInfo { return o.info }

// Scratch returns a directory for files that are needed until all is written: that of the file, for there is to be room
// for it, or the one for temporary files where nothing is made beside what the name leads to. It is the output's.
func (o *Output) Scratch() (dir *os.File, err error) {
	if o.dir == nil {
		o.dir, err = regular.OpenDir(os.TempDir())
	}
	return o.dir, err
}

// Close closes the output, written or not.
func (o *Output) Close() {
	o.file.Close()
	o.dir.Close()
}

// Write is [Write]. Where the contents cannot be made nothing is changed, but what a device or a FIFO has got by then.
func (o *Output) Write(data Contents) error { return o.failed(o.write(data)) }

func (o *Output) write(data Contents) error {
	switch {
	case o.base != "" && o.file == nil:
		return Replace(o.dir, o.base, Masked(o.perm), data)
	case o.base != "":
		return ReplaceRead(o.dir, o.base, o.perm, data, o.info)
	case o.file == nil:
		// Only the kernel knows whether this link may be followed (proc(5), protected_symlinks).
		f, err := os.OpenFile(o.name, os.O_WRONLY|os.O_CREATE, o.perm)
		if err != nil {
			return err
		}
		defer f.Close()
		return inPlace(int(f.Fd()), data)
	}
	to, err := regular.Reopen(int(o.file.Fd()), unix.AT_FDCWD, o.name, unix.O_WRONLY|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(to), o.name)
	defer out.Close()
	if o.info.Mode().IsRegular() {
		return inPlace(to, data)
	}
	return data(out)
}

// failed says what an error was about.
func (o *Output) failed(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err // of a name that nobody gave
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing %s: %w", o.name, err)
}
