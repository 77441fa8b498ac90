package normal

import (
	"slices"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
)

// NeedsDriver reports whether a file needs the host's driver: it names one of the
// driver's or the CUDA toolkit's libraries in DT_NEEDED, in a .note.dlopen note or
// in a string literal in read-only data.
func NeedsDriver(im *elfimage.Image) (bool, error) {
	names, err := asked(im)
	if slices.ContainsFunc(names, driver.NeedsDriver) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	found := false
	err = im.LibraryStrings(func(name string, _ bool) bool {
		found = driver.NeedsDriver(name)
		return !found
	})
	return found, err
}

// Calls returns the functions of the driver's libraries that a file refers to and does not itself define.
func Calls(im *elfimage.Image) (names []string) {
	l, known, err := im.Linkage()
	if err != nil || !known {
		return nil
	}
	for _, r := range l.References {
		if library, _ := driver.SymbolOwner(r.Name); driver.Provides(library) && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// asked returns the libraries that a file asks for, or says that it may open: DT_NEEDED and .note.dlopen. Beside an
// error are those that come before it.
func asked(im *elfimage.Image) (names []string, err error) {
	if names, err = im.Needed(); err != nil {
		return nil, err
	}
	notes, err := im.DlopenNotes()
	if err != nil {
		return names, err
	}
	for _, n := range notes {
		names = append(names, n.Sonames...)
	}
	return names, nil
}
