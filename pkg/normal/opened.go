package normal

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// Opened puts behind a run path those of dirs that hold a library of the CUDA toolkit which the
// file at a path names in read-only data, and which nothing else in the list holds. opened are
// the libraries, with their directories in added.
func (m *Maps) Opened(im *elfimage.Image, path string, l runpath.List, dirs []string) (after runpath.List, opened,
	added []string, err error) {
	o, abi, after := newOrigin(path), files.ABIOf(im), slices.Clone(l)
	holds := func(entry, name string) bool { return m.holds(o.expand(entry), name, abi) }
	err = im.LibraryNames(func(name string) bool {
		if !driver.Toolkit(name) || slices.ContainsFunc(after, func(e string) bool { return holds(e, name) }) {
			return true
		}
		for _, dir := range dirs {
			if !m.StubDirs.Contains(dir) && holds(dir, name) {
				after, opened, added = append(after, dir), append(opened, name), append(added, dir)
				break
			}
		}
		return true
	})
	return after, opened, added, err
}

// Weigh returns the store path that a directory is in, else the directory, and the bytes of the files in that: what an
// entry adds to a closure.
func Weigh(dir string) (root string, bytes int64) {
	root = cmp.Or(store.Path(dir), dir)
	weigh, _ := weights.LoadOrStore(root, sync.OnceValue(func() (bytes int64) {
		filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				if st, err := e.Info(); err == nil {
					bytes += st.Size()
				}
			}
			return nil
		})
		return bytes
	}))
	return root, weigh.(func() int64)()
}

// weights are functions that return what [Weigh] does, by root: many files name one library.
var weights sync.Map
