package fixup

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/pkg/tree"
)

// dir is a directory's listing: the names that a library may have.
type dir struct {
	path string
	real string // free of symbolic links

	once  sync.Once
	names []tree.Name // sorted; see list

	mu    sync.RWMutex
	files map[string]*Object // those that were looked at; nil: no ELF file
}

// dir returns a directory, which is looked at once; a file counts as a directory that
// holds nothing else.
func (ix *Index) dir(p string) *dir {
	if d := ix.known(p); d != nil {
		return d
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.dirLocked(p)
}

// known returns a directory that was looked at before, or nil.
func (ix *Index) known(p string) *dir {
	ix.dirsMu.RLock()
	defer ix.dirsMu.RUnlock()
	return ix.dirs[p]
}

// dirLocked is dir where mu is held.
func (ix *Index) dirLocked(p string) *dir {
	if p == "" {
		p = "."
	}
	if d := ix.known(p); d != nil {
		return d
	}
	d := ix.newDir(p)
	ix.dirsMu.Lock()
	defer ix.dirsMu.Unlock()
	ix.dirs[p] = d
	return d
}

func (ix *Index) newDir(p string) *dir {
	d := &dir{path: p}
	d.real = p
	if !strings.HasPrefix(p, "/") {
		if wd, err := os.Getwd(); err == nil {
			d.real = strings.TrimSuffix(wd, "/") + "/" + p
		}
	}
	real, mode, err := sysroot.Follow(d.real, func(p string) (string, string) { return "", p }, ix.lstat)
	if err == nil {
		d.real = real
	}
	if err == nil && mode&unix.S_IFMT == unix.S_IFREG {
		d.path, d.real = path.Dir(p), ix.dirLocked(path.Dir(p)).real
		d.once.Do(func() { d.names = []tree.Name{{Name: path.Base(p), Link: true}} })
	}
	return d
}

// lstat is sysroot.Lstat, once: the directories of a store have most of their paths in common.
func (ix *Index) lstat(p string) (mode uint32, target string, err error) {
	l, ok := ix.links[p]
	if !ok {
		l.mode, l.target, l.err = sysroot.Lstat(p)
		ix.links[p] = l
	}
	return l.mode, l.target, l.err
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
	return resolveIn(d.real, name)
}

// open reads the library of a name in a directory; nil where there is none.
func (ix *Index) open(d *dir, name string) *Object {
	if o, ok := d.opened(name); ok {
		return o
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.openLocked(d, name)
}

// openLocked is open where mu is held.
func (ix *Index) openLocked(d *dir, name string) *Object {
	o, ok := d.opened(name)
	if ok {
		return o
	}
	if real, ok := d.follow(name); ok {
		if o, ok = ix.objects[real]; !ok {
			o = readFile(real)
			ix.objects[real] = o
		}
	}
	d.keep(name, o)
	return o
}

// opened returns what keep was given.
func (d *dir) opened(name string) (*Object, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	o, ok := d.files[name]
	return o, ok
}

func (d *dir) keep(name string, o *Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files == nil {
		d.files = map[string]*Object{}
	}
	d.files[name] = o
}

// file is a name in a directory.
type file struct {
	dir  *dir
	name string
}

// readAll, with ix.mu held, opens files, several at a time: what open returns for them is known then.
func (ix *Index) readAll(files []file) {
	type result struct {
		real   string
		object *Object
		read   bool
	}
	results := make([]result, len(files))
	var mu sync.Mutex
	claimed := map[string]bool{}
	claim := func(real string) bool {
		mu.Lock()
		defer mu.Unlock()
		if _, known := ix.objects[real]; known || claimed[real] {
			return false
		}
		claimed[real] = true
		return true
	}
	several(len(files), ix.sources.Jobs, func(i int) {
		r, f := &results[i], files[i]
		if _, known := f.dir.opened(f.name); known {
			return
		}
		var ok bool
		if r.real, ok = f.dir.follow(f.name); ok && claim(r.real) {
			r.object, r.read = readFile(r.real), true
		}
	})
	for _, r := range results {
		if r.read {
			ix.objects[r.real] = r.object
		}
	}
	for i, r := range results {
		if _, known := files[i].dir.opened(files[i].name); !known {
			files[i].dir.keep(files[i].name, ix.objects[r.real]) // nil where it leads nowhere
		}
	}
}

// readNeeded reads the libraries that the tree's needs lead to first, outside of the tree.
func (ix *Index) readNeeded() {
	var files []file
	seen := map[string]bool{}
	for _, o := range ix.Files {
		for _, name := range o.Needed {
			if seen[name] {
				continue
			}
			seen[name] = true
			if len(ix.own[name]) > 0 {
				continue
			}
			for _, l := range ix.levels[1:] {
				n := len(files)
				l.holding(name, func(d *dir) { files = append(files, file{d, name}) })
				if len(files) > n {
					break
				}
			}
		}
	}
	ix.readAll(files)
}

// resolveIn follows the links of a name in a directory that is free of links.
func resolveIn(dir, name string) (string, bool) {
	p := dir + "/" + name
	for range 40 {
		target, err := os.Readlink(p)
		if errors.Is(err, unix.EINVAL) {
			return p, true
		}
		if err != nil {
			return "", false
		}
		if target == "" || strings.Contains(target, "/") || target == "." || target == ".." {
			real, err := filepath.EvalSymlinks(p)
			return real, err == nil
		}
		p = dir + "/" + target
	}
	return "", false
}

// readFile reads a file that is not the tree's; nil where it is no ELF file.
func readFile(real string) *Object {
	f, err := tree.Open(real)
	if f != nil {
		defer f.Close()
	}
	if err != nil || !f.ELF() {
		return nil
	}
	o := &Object{Path: real, Real: real}
	im, err := elfimage.ParseHead(f, f.Size(), f.Head())
	if err != nil {
		o.Err = err
		return o
	}
	readObject(o, im, nil)
	im.Release()
	return o
}
