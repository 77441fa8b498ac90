package fixup

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/tree"
)

// dir is a directory's listing: the names that a library may have.
type dir struct {
	path string
	real string // free of symbolic links

	once  sync.Once
	names []tree.Name // sorted; see list

	files sync.Map // string → *Object: those that were looked at; nil: no ELF file
}

// dir returns a directory, which is looked at once; a file counts as a directory that
// holds nothing else.
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
	d := &dir{path: p, real: p}
	if !strings.HasPrefix(p, "/") {
		if wd, err := os.Getwd(); err == nil {
			d.real = strings.TrimSuffix(wd, "/") + "/" + p
		}
	}
	real, mode, err := ix.loader.Files().Resolve(d.real)
	if err == nil {
		d.real = real
	}
	if err == nil && mode&unix.S_IFMT == unix.S_IFREG {
		d.path, d.real = path.Dir(p), ix.dir(path.Dir(p)).real
		d.once.Do(func() { d.names = []tree.Name{{Name: path.Base(p), Link: true}} })
	}
	return d
}

// list reads the names of a directory's libraries, once. What cannot be read offers nothing.
func (d *dir) list() *dir {
	d.once.Do(func() { d.names, _ = tree.Names(d.path, libraryName) })
	return d
}

// find returns where in the listing a name is.
func (d *dir) find(name string) (int, bool) {
	return slices.BinarySearchFunc(d.list().names, name, func(n tree.Name, name string) int { return strings.Compare(n.Name, name) })
}

// has reports whether the directory has a library of a name.
func (d *dir) has(name string) bool {
	_, ok := d.find(name)
	return ok
}

// follow returns the path, free of symbolic links, to which a name of the directory leads.
func (d *dir) follow(name string) (real string, ok bool) {
	if i, ok := d.find(name); ok && !d.names[i].Link {
		return d.real + "/" + name, true
	}
	real, err := filepath.EvalSymlinks(d.real + "/" + name)
	return real, err == nil
}

// open reads the library of a name in a directory, once; nil where there is none.
func (ix *Index) open(d *dir, name string) *Object {
	o, ok := d.files.Load(name)
	if !ok {
		var lib *Object
		if real, found := d.follow(name); found {
			read, known := ix.objects.Load(real)
			if !known {
				read, _ = ix.objects.LoadOrStore(real, sync.OnceValue(func() *Object { return ix.readFile(real) }))
			}
			lib = read.(func() *Object)()
		}
		o, _ = d.files.LoadOrStore(name, lib)
	}
	return o.(*Object)
}

// at is open for the path of a library.
func (ix *Index) at(p string) *Object { return ix.open(ix.dir(path.Dir(p)), path.Base(p)) }

// readFile reads a file that is not the tree's; nil where it is no ELF file.
func (ix *Index) readFile(real string) *Object {
	f, err := tree.Open(real)
	if f != nil {
		defer f.Close()
	}
	if err != nil || !f.ELF() {
		return nil
	}
	o := &Object{Path: real, Real: real, File: unread}
	ix.take(o, f, false)
	return o
}
