package tree

import (
	"errors"
)

// ErrTooLarge says that a file is larger than what was asked for.
var ErrTooLarge = errors.New("is too large")

// Length returns the size in bytes of a file that need not be ELF.
func (f *File) Length() (int64, error) {
	if !f.looked() {
		if err := f.look(); err != nil {
			return 0, err
		}
	}
	return f.stat.Size, nil
}

// Whole returns the contents of a file of at most limit bytes, else ErrTooLarge.
// They are valid during the visit. [File.Replace] may follow.
func (f *File) Whole(limit int64) ([]byte, error) {
	size, err := f.Length()
	if err == nil && size > limit {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, err
	}
	// The head was read before the file's times were: another process may have changed it in between.
	b := f.buf
	if size > int64(len(b)) {
		b = make([]byte, size)
	}
	n, err := f.pread(b[:size], 0)
	if f.racy {
		f.remember(b[:n], 0)
	}
	return b[:n], err
}
