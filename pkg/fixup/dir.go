package fixup

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// dir is a directory as a run path or an argument names it.
type dir struct {
	path string
	real string // free of symbolic links
	only string // the one name that counts in it, if a file and not the directory was named

	load func() *listing
}

// listing is the names in a directory that a library may have.
type listing struct {
	has    map[string]bool
	sorted []string
}

// dir returns the directory at a path; a file counts as a directory that holds nothing else.
func (ix *Index) dir(p string) *dir {
	p = cmp.Or(p, ".")
	d, ok := ix.dirs.Load(p)
	if !ok {
		d, _ = ix.dirs.LoadOrStore(p, ix.newDir(p))
	}
	return d.(*dir)
}

// dirOf is dir for a directory as a walk has it, with a slash at its end.
func (ix *Index) dirOf(p string) *dir { return ix.dir(strings.TrimSuffix(p, "/")) }

func (ix *Index) newDir(p string) *dir {
	d := &dir{path: p, real: ix.loader.Absolute(p)}
	switch at := ix.files.At(d.real); {
	case at.Errno != 0:
	case at.Mode&unix.S_IFMT == unix.S_IFREG:
		d.path, d.real, d.only = path.Dir(p), ix.dir(path.Dir(p)).real, path.Base(p)
	default:
		d.real = at.Host
	}
	d.load = sync.OnceValue(func() *listing {
		all := ix.files.Names(d.real) // none if it cannot be read
		l := &listing{has: make(map[string]bool, len(all))}
		for name := range all {
			if libraryName(name) && (d.only == "" || d.only == name) {
				l.has[name], l.sorted = true, append(l.sorted, name)
			}
		}
		slices.Sort(l.sorted)
		return l
	})
	return d
}

// names returns the names that a library may have in the directory, sorted by their bytes.
func (d *dir) names() []string { return d.load().sorted }

// has reports whether the directory has a library of a name.
func (d *dir) has(name string) bool { return d.load().has[name] }

// open returns the library of a name in a directory; nil if there is none.
func (ix *Index) open(d *dir, name string) *Object { return ix.file(d.real + "/" + name) }

// at is open for the path of a library.
func (ix *Index) at(p string) *Object { return ix.open(ix.dir(path.Dir(p)), path.Base(p)) }

// file returns the file that an absolute path leads to; nil if it is no ELF file. A file of the tree is as the walk
// has read it.
func (ix *Index) file(p string) *Object {
	at := ix.files.At(p)
	if at.Errno != 0 {
		return nil
	}
	o, known := ix.objects.Load(at.Host)
	if !known {
		var lib *Object
		if f := ix.files.Open(at.Host); f.IsELF() {
			lib = &Object{Path: f.Path, Real: f.Path, File: f}
			lib.abi, _ = f.ABI()
			if f.ELF == nil {
				lib.File, lib.err = unread, errors.New(f.Problem())
			} else {
				lib.examine()
			}
		}
		o, _ = ix.objects.LoadOrStore(at.Host, lib)
	}
	return o.(*Object)
}
