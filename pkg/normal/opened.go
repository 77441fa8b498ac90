package normal

import (
	"slices"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/runpath"
)

// Opened puts behind a run path those of dirs that hold a library of the CUDA toolkit which the
// file at a path names in read-only data, and which nothing else in the list holds. opened are
// the libraries, with their directories in added.
func (m *Maps) Opened(im *elfimage.Image, path string, l runpath.List, dirs []string) (after runpath.List, opened, added []string, err error) {
	o, abi, after := newOrigin(path), loader.ABIOf(im), slices.Clone(l)
	holds := func(entry, name string) bool { return m.dirs.holds(o.expand(entry), name, abi) }
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
