package cli

import (
	"errors"
	"io/fs"
	"os"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/tree"
)

// tolerates reports whether a file's failure is a warning under --malformed warn: it is
// a malformed ELF file, or a file that may not be read. Test data of compilers and
// debuggers holds both on purpose. A directory that cannot be read, or a file that
// cannot be written, is a failure all the same.
func (s *session) tolerates(f *tree.File, err error) bool {
	if !s.Tolerant {
		return false
	}
	var malformed *elfimage.FormatError
	if errors.As(err, &malformed) {
		return true
	}
	if f.Err == nil || !errors.Is(f.Err, fs.ErrPermission) {
		return false
	}
	st, err := os.Lstat(f.Path)
	return err == nil && st.Mode().IsRegular()
}

// parseError returns what is wrong with an open file as an ELF image. The loader's
// reasons, which a check gives, are in the loader's words and have no type.
func parseError(f *tree.File) error {
	if f.Err != nil {
		return f.Err
	}
	im, err := elfimage.ParseHead(f, f.Size(), f.Head())
	if err == nil {
		im.Release()
	}
	return err
}
