package tree

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrTooLarge says that a file is larger than what was asked for.
var ErrTooLarge = errors.New("is too large")

// Whole returns the contents of a file of at most limit bytes, else ErrTooLarge.
// They are valid during the visit. [File.Write] may follow, also for a file that is not ELF.
func (f *File) Whole(limit int64) ([]byte, error) {
	if f.stat.Mode == 0 {
		if err := ignoringEINTR(func() error { return unix.Fstat(f.fd, &f.stat) }); err != nil {
			return nil, err
		}
	}
	switch size := f.stat.Size; {
	case f.stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, ErrNotRegular
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
