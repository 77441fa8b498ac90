package cli

import (
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/tree"
)

// tolerates reports whether a file's failure is a warning, as it is under --malformed warn.
func (s *session) tolerates(f *tree.File, err error) bool {
	return s.Tolerant && (elfimage.IsMalformed(err) || f.Unreadable())
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
