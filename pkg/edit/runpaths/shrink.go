package runpaths

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
)

// maxNames bounds the names of libraries that are taken from a file's read-only data.
const maxNames = 4096

// shrink drops the entries in which the loader finds nothing that the file asks for, beside those of Shrink and compat
// directories. Of the entries below Temporary, only those stay that alone hold a library.
func (p *Edit) shrink(im *elfimage.Image, path string, before runpath.List) (runpath.List, runpath.Notes, error) {
	names, err := normal.Asked(im)
	if err != nil {
		return nil, runpath.Notes{}, err
	}
	first := len(names)
	err = im.LibraryNames(func(name string) bool {
		names = append(names, name)
		return len(names)-first < maxNames
	})
	if err != nil {
		return nil, runpath.Notes{}, err
	}
	entries := p.Normal.Entries(normal.FileOf(path, im))
	after, dropped := runpath.Shrink(before, runpath.Use{
		Names: names,
		Holds: entries.Hold,
		Keep:  func(entry string) bool { return p.Shrink(entry) || entries.IsCompat(runpath.Key(entry)) },
		Temporary: func(entry string) bool {
			return slices.ContainsFunc(p.Temporary, func(dir string) bool {
				dir = strings.TrimRight(dir, "/")
				return dir != "" && strings.HasPrefix(entry, dir+"/")
			})
		},
	})
	notes := runpath.Notes{Unused: dropped, Empties: before.Empties()}
	if !p.Normal.KeepEmpty {
		after = slices.DeleteFunc(after, func(entry string) bool { return entry == "" })
	}
	return after, notes, nil
}

// opened puts behind a run path those of Opened that hold a library of the CUDA toolkit which the file at a path names
// in read-only data, and which nothing else in the list holds. names are the libraries, added their directories.
func (p *Edit) opened(im *elfimage.Image, path string, l runpath.List) (after runpath.List, names, added []string,
	err error) {
	entries, after := p.Normal.Entries(normal.FileOf(path, im)), slices.Clone(l)
	err = im.LibraryNames(func(name string) bool {
		if !driver.Toolkit(name) || slices.ContainsFunc(after, func(e string) bool { return entries.Hold(e, name) }) {
			return true
		}
		for _, dir := range p.Opened {
			if !p.Normal.StubDirs.Contains(dir) && entries.Hold(dir, name) {
				after, names, added = append(after, dir), append(names, name), append(added, dir)
				break
			}
		}
		return true
	})
	return after, names, added, err
}
