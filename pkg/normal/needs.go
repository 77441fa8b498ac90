package normal

import (
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
)

// NeedsDriver reports whether a file needs the host's driver: it names one of the
// driver's or the CUDA toolkit's libraries in DT_NEEDED, in a .note.dlopen note or
// in a string literal in read-only data.
func NeedsDriver(im *elfimage.Image) (bool, error) {
	needed, err := im.Needed()
	if err != nil {
		return false, err
	}
	for _, name := range needed {
		if driver.NeedsDriver(name) {
			return true, nil
		}
	}
	notes, err := im.DlopenNotes()
	if err != nil {
		return false, err
	}
	for _, note := range notes {
		for _, name := range note.Sonames {
			if driver.NeedsDriver(name) {
				return true, nil
			}
		}
	}
	found := false
	err = im.LibraryStrings(func(name string, _ bool) bool {
		found = driver.NeedsDriver(name)
		return !found
	})
	return found, err
}
