package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"cuda-runpath/pkg/driver"
)

// offer links the driver-provided stubs of directories into one directory, by
// soname, so that LD_LIBRARY_PATH can offer them where there is no driver. The
// directories themselves cannot be offered: the file of libcuda.so.1's stub is
// libcuda.so, and beside it lie stubs of the toolkit's libraries.
type offer struct {
	dir   string
	dirs  *directories
	done  map[string]bool
	links map[string]string // soname to what is linked
	errs  []error
}

func (o *offer) from(stubDirs []string) {
	for _, dir := range stubDirs {
		if o.done[dir] {
			continue
		}
		if o.done == nil {
			o.done, o.links = map[string]bool{}, map[string]string{}
		}
		o.done[dir] = true
		sonames := o.dirs.sonames(dir)
		for _, path := range slices.Sorted(maps.Values(sonames)) {
			soname, err := sonameOf(path)
			if soname == "" || err != nil || o.links[soname] != "" || !driver.Provides(soname) {
				continue
			}
			if err := o.link(path, soname); err != nil {
				o.errs = append(o.errs, err)
				continue
			}
			o.links[soname] = path
		}
	}
}

// link makes the link of a soname. target is absolute, as run path entries are once expanded.
func (o *offer) link(target, soname string) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	at := filepath.Join(o.dir, soname)
	switch old, err := os.Readlink(at); {
	case err == nil && old == target:
		return nil
	case err == nil:
		// Another stub of the soname, from an earlier run: any will do.
		if _, err := os.Stat(at); err == nil {
			return nil
		}
		if err := os.Remove(at); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s exists and is not a symbolic link", at)
	}
	if err := os.Symlink(target, at); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (o *offer) names() []string { return slices.Sorted(maps.Keys(o.links)) }
