package runpaths

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/normal"
)

// OfferIn returns an offer in a directory, which is made for the first stub.
func OfferIn(dir string, m *normal.Maps) *Offer { return &Offer{dir: dir, maps: m} }

// Offer links the driver-provided stubs of directories into one directory, by
// soname, so that LD_LIBRARY_PATH can offer them where there is no driver. The
// directories themselves cannot be offered: the file of libcuda.so.1's stub is
// libcuda.so, and beside it lie stubs of the toolkit's libraries.
type Offer struct {
	dir   string
	in    *os.Root // dir, open from the first stub until the end of the process
	maps  *normal.Maps
	done  map[string]bool
	links map[string]string // soname to what is linked
	// Errs are the links that could not be made.
	Errs []error
}

// From offers the stubs of some directories.
func (o *Offer) From(stubDirs []string) {
	for _, dir := range stubDirs {
		if o.done[dir] {
			continue
		}
		if o.done == nil {
			o.done, o.links = map[string]bool{}, map[string]string{}
		}
		o.done[dir] = true
		sonames := o.maps.Libraries(dir)
		for _, path := range slices.Compact(slices.Sorted(maps.Values(sonames))) {
			soname, _ := o.maps.Soname(path)
			if soname == "" || o.links[soname] != "" || !driver.Provides(soname) {
				continue
			}
			if err := o.link(path, soname); err != nil {
				o.Errs = append(o.Errs, err)
				continue
			}
			o.links[soname] = path
		}
	}
}

// link makes the link of a soname, in which driver.Provides allows no slash. target is absolute, as run path entries
// are once expanded. The directory is opened once: whoever exchanges its name afterwards exchanges nothing for us.
func (o *Offer) link(target, soname string) error {
	if o.in == nil {
		if err := os.MkdirAll(o.dir, 0o755); err != nil {
			return err
		}
		in, err := os.OpenRoot(o.dir)
		if err != nil {
			return err
		}
		o.in = in
	}
	switch old, err := o.in.Readlink(soname); {
	case err == nil && old == target:
		return nil
	case err == nil:
		// Another stub of the soname, from an earlier run: any will do.
		if !filepath.IsAbs(old) {
			old = filepath.Join(o.dir, old)
		}
		if _, err := os.Stat(old); err == nil {
			return nil
		}
		if err := o.in.Remove(soname); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s exists and is not a symbolic link", filepath.Join(o.dir, soname))
	}
	if err := o.in.Symlink(target, soname); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Names returns the sonames that are offered.
func (o *Offer) Names() []string { return slices.Sorted(maps.Keys(o.links)) }
