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
	names, err := Asked(im)
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

// Asked returns the libraries that a file asks for, or says that it may open: DT_NEEDED and .note.dlopen. Beside an
// error are those that come before it.
func Asked(im *elfimage.Image) (names []string, err error) {
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
