package explain

import (
	"io"
	"path"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/gpucode"
)

// Seen is a file's GPU code, read while the loader had the file open.
type Seen struct {
	Code    *gpucode.File
	CodeErr error
}

// Look is a [loader.Options.Look] that returns a *Seen.
func Look(f *files.File, _ *elfimage.Image, r io.ReaderAt, head []byte) any {
	s := &Seen{}
	if !driver.Provides(path.Base(f.Path)) {
		s.Code, s.CodeErr = gpucode.Read(r, f.Size, head)
	}
	return s
}

// SeenOf returns what [Look] saw of a file.
func SeenOf(f *files.File) *Seen {
	if s, ok := f.Seen.(*Seen); ok {
		return s
	}
	return &Seen{}
}
