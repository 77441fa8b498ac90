package tree

import (
	"errors"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/plainfile"
)

// ErrTooLarge says that a file is larger than what was asked for.
var ErrTooLarge = errors.New("is too large")

// Length returns the size in bytes of a file that need not be ELF.
func (f *File) Length() (int64, error) {
	if f.stat.Mode == 0 {
		if err := ignoringEINTR(func() error { return unix.Fstat(f.fd, &f.stat) }); err != nil {
			return 0, err
		}
	}
	if f.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, plainfile.ErrNotRegular
	}
	return f.stat.Size, nil
}

// Whole returns the contents of a file of at most limit bytes, else ErrTooLarge.
// They are valid during the visit. [File.Write] may follow, also for a file that is not ELF.
func (f *File) Whole(limit int64) ([]byte, error) {
	size, err := f.Length()
	switch {
	case err != nil:
		return nil, err
	case size > limit:
		return nil, ErrTooLarge
	case size == int64(len(f.head)):
		return f.head, nil
	default:
		b := make([]byte, size)
		n, err := f.pread(b[copy(b, f.head):], int64(len(f.head)))
		return b[:len(f.head)+n], err
	}
}
