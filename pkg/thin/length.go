package thin

import (
	"io"

	"cuda-runpath/pkg/elfimage"
)

// Length says what becomes of a file's length.
type Length int

// What may become of it.
const (
	Kept    Length = iota // what is free becomes holes
	Shorter               // whole pages are cut, but of a file that bound names
	Cutting               // of that too; and what signed names is changed
)

// signed says which section of the file at r holds a signature over it, which any change of the file makes void: ""
// where none does.
func signed(r io.ReaderAt, size int64, head []byte) string {
	im, err := elfimage.ParseSections(r, size, head)
	if err != nil {
		return ""
	}
	defer im.Release()
	for i := range im.Sections {
		switch name := im.SectionName(i); name {
		case ".sig", ".signature", "signature": // elfsign of Solaris and NetBSD; bsign
			return "its section " + name + " holds a signature"
		}
	}
	return ""
}

// bound says what outside of the file at r counts on the places in it, with a verb before and behind the file: a debug
// file, which is joined with it section by section. It is "" where nothing is known.
// debug returns the path of the debug file of a build ID, "" for none.
func bound(r io.ReaderAt, size int64, head []byte, debug func(buildID string) string) string {
	im, err := elfimage.ParseSections(r, size, head)
	if err != nil {
		return ""
	}
	defer im.Release()
	for i := range im.Sections {
		if im.SectionName(i) == ".gnu_debuglink" {
			return "its section .gnu_debuglink names a debug file"
		}
	}
	id, _ := im.BuildID()
	if file := debug(id); file != "" {
		return file + " is its debug file"
	}
	return ""
}

// DebugFileOf returns the build ID of a detached debug file, "" for any other.
func DebugFileOf(r io.ReaderAt, size int64, head []byte) string {
	im, err := elfimage.ParseHead(r, size, head)
	if err != nil {
		return ""
	}
	defer im.Release()
	if im.SkipReason() != elfimage.Detached {
		return ""
	}
	id, _ := im.BuildID()
	return id
}
