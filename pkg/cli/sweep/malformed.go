package sweep

import (
	"cuda-runpath/pkg/cli/walk"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/tree"
)

// Tolerates reports whether a file's failure is a warning, as it is under --malformed warn.
func Tolerates(s *walk.Session, f *tree.File, err error) bool {
	return s.Tolerant && (elfimage.IsMalformed(err) || f.Unreadable())
}

// ParseError returns what is wrong with an open file as an ELF image. The loader's
// reasons, which a check gives, are in the loader's words and have no type.
func ParseError(f *tree.File) error {
	if f.Err != nil {
		return f.Err
	}
	im, err := elfimage.ParseHead(f, f.Size(), f.Head())
	if err == nil {
		im.Release()
	}
	return err
}
