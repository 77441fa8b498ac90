package normal

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/runpath"
)

// maxNames bounds the names of libraries that are taken from a file's read-only data.
const maxNames = 4096

// Shrink drops the entries in which the loader finds nothing that the file asks for, beside those that keep
// reports and compat directories. Of the entries below the temporary directories, only those
// stay that alone hold a library.
func (m *Maps) Shrink(im *elfimage.Image, path string, before runpath.List, keep func(entry string) bool,
	temporary []string) (runpath.List, runpath.Notes, error) {
	names, err := asked(im)
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
	o, abi := newOrigin(path), files.ABIOf(im)
	after, dropped := runpath.Shrink(before, runpath.Use{
		Names: names,
		Holds: func(entry, name string) bool { return m.holds(o.expand(entry), name, abi) },
		Keep:  func(entry string) bool { return keep(entry) || m.isCompat(o, runpath.Key(entry)) },
		Temporary: func(entry string) bool {
			return slices.ContainsFunc(temporary, func(dir string) bool {
				dir = strings.TrimRight(dir, "/")
				return dir != "" && strings.HasPrefix(entry, dir+"/")
			})
		},
	})
	notes := runpath.Notes{Unused: dropped, Empties: before.Empties()}
	if !m.KeepEmpty {
		after = slices.DeleteFunc(after, func(entry string) bool { return entry == "" })
	}
	return after, notes, nil
}
