package patchelf

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

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
	fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	memory := os.NewFile(uintptr(fd), "output")
	defer memory.Close()
	if err := outputRegular(memory, f, edit); err != nil {
		return err
	}
	if _, err := memory.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(to, memory)
	return err
}
