package explain

import (
	"bytes"
	"io"
	"path"
	"slices"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/scripts"
)

// Seen is what was looked at in a file while the loader had it open.
type Seen struct {
	Wraps   string        // the program that a compiled wrapper starts; "" for what is none
	Code    *gpucode.File // its GPU code, where that was asked for
	CodeErr error
}

// Look returns a [loader.Options.Look] that returns a *Seen; code says whether GPU code is of interest.
func Look(code bool) func(*loader.File, *elfimage.Image, io.ReaderAt, []byte) any {
	return func(f *loader.File, im *elfimage.Image, r io.ReaderAt, head []byte) any {
		s := &Seen{}
		if code && !driver.Provides(path.Base(f.Path)) {
			s.Code, s.CodeErr = gpucode.Read(r, f.Size, head)
		}
		// A wrapper needs the C library alone, and calls its execv. Most other programs do not, and need not be read.
		if f.Interp != "" && f.Size <= scripts.MaxCompiled && !slices.ContainsFunc(f.Needed, func(n string) bool { return n != "libc.so.6" }) && calls(im, "execv") {
			data := make([]byte, f.Size)
			if n, _ := r.ReadAt(data, 0); n > 0 {
				s.Wraps = scripts.Compiled(data[:n], scripts.Surroundings{Variable: func(string) string { return "" }}).Program
			}
		}
		return s
	}
}

// calls reports whether one of a file's dynamic strings ends in a name, as that of every function it imports does.
func calls(im *elfimage.Image, name string) bool {
	table, err := im.Read(im.StrOff, im.StrSize)
	return err == nil && bytes.Contains(table, []byte(name+"\x00"))
}

// SeenOf returns what [Look] saw of a file.
func SeenOf(f *loader.File) *Seen {
	if s, ok := f.Seen.(*Seen); ok {
		return s
	}
	return &Seen{}
}
