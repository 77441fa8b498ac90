package patchelf

import (
	"bytes"
	"errors"
	"io"
	"os"

	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/tree"
)

// output writes the file, as the edit leaves it (nil: as it is), to a path. Where
// that is the file itself, it is edited in place.
func output(path string, f *tree.File, edit *elfedit.Edit) error {
	// Not truncated yet: it may be the file that is being read.
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o777)
	if err != nil {
		return err
	}
	defer to.Close()
	st, err := to.Stat()
	if err != nil {
		return err
	}
	if f.Is(st) {
		if edit == nil {
			return nil
		}
		return f.Write(func(w tree.Writer) error { return edit.Apply(w) })
	}
	if st.Mode().IsRegular() {
		err = outputRegular(to, f, edit)
	} else {
		err = outputStream(to, f, edit)
	}
	return errors.Join(err, to.Close())
}

func outputRegular(to *os.File, f *tree.File, edit *elfedit.Edit) error {
	if err := to.Truncate(0); err != nil {
		return err
	}
	if err := f.CopyTo(to); err != nil {
		return err
	}
	if edit == nil {
		return nil
	}
	return edit.Apply(to)
}

// outputStream is for what cannot be written at an offset: a pipe, /dev/stdout.
func outputStream(to io.Writer, f *tree.File, edit *elfedit.Edit) error {
	b := make(buffer, f.Size())
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if edit != nil {
		if err := edit.Apply(&b); err != nil {
			return err
		}
	}
	_, err := io.Copy(to, bytes.NewReader(b))
	return err
}

// buffer is a file in memory.
type buffer []byte

func (b *buffer) WriteAt(p []byte, off int64) (int, error) {
	if end := off + int64(len(p)); end > int64(len(*b)) {
		if err := b.Truncate(end); err != nil {
			return 0, err
		}
	}
	return copy((*b)[off:], p), nil
}

func (b *buffer) Truncate(size int64) error {
	if size <= int64(len(*b)) {
		*b = (*b)[:size]
		return nil
	}
	*b = append(*b, make([]byte, size-int64(len(*b)))...)
	return nil
}
