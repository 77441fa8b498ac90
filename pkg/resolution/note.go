// Package resolution knows the resolution note of a file: where each library is that the
// file needs. patchelf writes it (--build-resolution-cache, 0.19), and nixpkgs' glibc
// (ldcache.patch) reads it after LD_LIBRARY_PATH and before DT_RUNPATH.
package resolution

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// Section is the name of its section; by what the loader knows it is in package elfimage.
const Section = ".note.nixos.ldcache"

// A Note is what a resolution note says, in the order in which it is written. A nil Note
// says nothing, and stands for none.
type Note []Entry

// An Entry says where the loader looks for a library that the file needs.
type Entry struct {
	Name   string  `json:"name"`
	Places []Place `json:"places"`
}

// A Place is "=FILE", which is opened, or "?DIRECTORY", which is searched as an entry of a
// run path. The loader ignores any other text.
type Place string

// File returns the file that is opened.
func (p Place) File() (path string, ok bool) { return strings.CutPrefix(string(p), "=") }

// Directory returns the entry that is searched. The loader ignores an empty one
// (decompose_rpath of glibc's elf/dl-load.c), which in a run path is the working directory.
func (p Place) Directory() (entry string, ok bool) { return strings.CutPrefix(string(p), "?") }

// Errors of Parse.
var (
	errUnread    = errors.New("the loader does not read its description, which has no pair or does not end in two NULs")
	errMalformed = errors.New("a name without a place: the loader stops reading the note there")
)

// Parse reads the description of a note as the loader does (_dl_find_nixos_cache and
// _dl_lookup_nixos_cache). Beside an error the note is what stands before it. Of several
// entries of a name the loader takes the first.
func Parse(desc []byte) (Note, error) {
	if len(desc) <= 2 || !bytes.HasSuffix(desc, []byte{0, 0}) {
		return nil, errUnread
	}
	var n Note
	text := func() (s []byte) {
		s, desc, _ = bytes.Cut(desc, []byte{0})
		return s
	}
	for {
		name := text()
		if len(name) == 0 {
			return n, nil
		}
		places := text()
		if len(places) == 0 {
			return n, errMalformed
		}
		e := Entry{Name: string(name)}
		for p := range strings.SplitSeq(string(places), ":") {
			e.Places = append(e.Places, Place(p))
		}
		n = append(n, e)
	}
}

// Bytes returns the description that says the same; nil for a note that says nothing.
func (n Note) Bytes() []byte {
	if len(n) == 0 {
		return nil
	}
	var b []byte
	for _, e := range n {
		b = append(append(b, e.Name...), 0)
		for i, p := range e.Places {
			if i > 0 {
				b = append(b, ':')
			}
			b = append(b, p...)
		}
		b = append(b, 0)
	}
	return append(b, 0)
}

// Searches reports whether an entry of the run path is searched for some name.
func (n Note) Searches(entry string) bool {
	return slices.ContainsFunc(n, func(e Entry) bool { return slices.Contains(e.Places, Place("?"+entry)) })
}

// Lookup returns where the loader looks for a name.
func (n Note) Lookup(name string) (places []Place, ok bool) {
	for _, e := range n {
		if e.Name == name {
			return e.Places, true
		}
	}
	return nil, false
}
