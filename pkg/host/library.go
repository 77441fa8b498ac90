package host

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/sysroot"
)

// Library is one of the driver's libraries on the host.
type Library struct {
	Name   string       `json:"name"` // the table's: "libcuda.so"
	Class  driver.Class `json:"class"`
	Soname string       `json:"soname"`
	// Path is the name that outlives an upgrade of the driver, where the host has one: …/libcuda.so.1.
	Path string `json:"path"`
	// File is the file itself, all links followed: …/libcuda.so.535.261.03.
	File    string `json:"file"`
	Version string `json:"version,omitempty"` // in the file's name; "" where it has none
	Source  string `json:"source"`            // why the directory was looked at
	// Links are the names under which programs ask for it: for the linker, by soname, with the version.
	Links []string `json:"links"`
	// Needs are the sonames in DT_NEEDED, the C library's own left out.
	Needs []string `json:"needs"`
	// Opens are the host's libraries that a graphics library names to open them by name.
	Opens []string `json:"-"`
}

// Rejected is a file that bears the name of one of the driver's libraries and is not one, or must not be used.
type Rejected struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	// Damaged means that it should be usable: it cannot be read, or is cut off.
	Damaged bool `json:"damaged"`
}

// damaged marks an error about a file that should be usable.
type damaged struct{ error }

// untrusted marks an error about a file that others could replace.
type untrusted struct{ error }

var errOtherMachine = errors.New("for another machine")

// driverVersion matches a driver's version, as in libcuda.so.535.261.03: the branch has three digits.
var driverVersion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[1-9][0-9]{2,3}\.[0-9]+(\.[0-9]+)?$`)
})

// VersionIn returns the driver's version in a file's name, or "".
func VersionIn(name string) string {
	if _, version, ok := strings.Cut(path.Base(name), ".so."); ok && driverVersion().MatchString(version) {
		return version
	}
	return ""
}

var errEmpty = errors.New("an empty file, such as a container's runtime leaves where it mounted a library")

// OpenImage opens an ELF file below a root. The caller closes the file, from which the image reads.
func OpenImage(root sysroot.Root, name string) (*elfimage.Image, *os.File, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	im, err := ImageOf(f)
	return im, f, err
}

// ImageOf returns the image of an open file, which it closes where it is none.
func ImageOf(f *os.File) (im *elfimage.Image, err error) {
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = regular.ErrNotRegular
	case info.Size() == 0:
		err = errEmpty
	default:
		im, err = elfimage.Parse(f, info.Size())
	}
	if err != nil {
		f.Close()
	}
	return im, err
}

// ExamineCUDA reads a file that is to be the driver's libcuda.so.1 for a machine. It is an error where that is none, or
// must not be relied on.
func (h *Host) ExamineCUDA(name string, m Machine) (Library, error) {
	row, _ := driver.Lookup(driver.LibCUDA)
	return h.examine(name, row, m)
}

// examine reads a file that bears the name of a driver's library. It returns
// errOtherMachine for one that is simply not for m.
func (h *Host) examine(name string, row driver.Library, m Machine) (lib Library, err error) {
	lib = Library{Name: row.Name, Class: row.Class, Path: name}
	file, err := h.Root.Resolve(name)
	if err != nil {
		if target, lerr := h.Root.Readlink(name); lerr == nil && errors.Is(err, fs.ErrNotExist) {
			return lib, fmt.Errorf("a dangling link to %s", target)
		}
		return lib, Reason(err)
	}
	h.Saw(path.Dir(file))
	defer func() {
		if row.Soname == driver.LibCUDA || err != nil && !errors.Is(err, errOtherMachine) {
			h.Saw(file)
		}
	}()
	lib.File, lib.Version = file, VersionIn(file)
	for _, at := range []string{path.Dir(name), path.Dir(file)} {
		if (driver.StubDirs{}).Contains(at) {
			return lib, errors.New("a stub for linking, which must not be loaded")
		}
		if h.IsCompat(at) && !h.CompatToo {
			return lib, errors.New("a compat package's, not the host driver's")
		}
	}
	im, f, err := OpenImage(h.Root, file)
	if err != nil {
		why := Reason(err)
		if !errors.Is(err, errEmpty) && !errors.Is(err, regular.ErrNotRegular) {
			why = damaged{why}
		}
		return lib, why
	}
	defer f.Close()
	if im.Machine != m.Machine || im.Class != m.Class {
		return lib, errOtherMachine
	}
	if im.Type != elf.ET_DYN {
		return lib, errors.New("not a shared library")
	}
	if lib.Soname, err = im.Soname(); err != nil {
		return lib, damaged{err}
	}
	if lib.Soname == "" {
		lib.Soname = path.Base(file) // a few have none; programs open them by their file's name
	}
	if !row.Match(lib.Soname) || strings.Contains(lib.Soname, "/") {
		return lib, fmt.Errorf("its soname is %q", lib.Soname)
	}
	needed, err := im.Needed()
	if err != nil {
		return lib, damaged{err}
	}
	lib.Needs = withoutLibc(needed)
	if lib.Class == driver.Graphics {
		// An error here means a damaged file; what was read until then counts.
		_ = im.LibraryStrings(func(name string, exact bool) bool {
			if exact && windows().MatchString(name) {
				lib.Opens = addOnce(lib.Opens, name)
			}
			return true
		})
	}
	if err := h.trusted(name); err != nil {
		return lib, untrusted{err}
	}
	lib.Links = h.linkNames(lib, row)
	return lib, nil
}

// SplitLibraryPath returns the directories that LD_LIBRARY_PATH names.
func SplitLibraryPath(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ';' })
}

// ByLibraryPath returns the libcuda.so.1 that programs of a machine find by an LD_LIBRARY_PATH, "" where they find none
// in a directory that has an absolute path. Whoever set the variable relies on it: others may be able to replace the
// file, which is loaded all the same, so it serves for nothing but to start a program with that variable.
func (h *Host) ByLibraryPath(list string, m Machine) string {
	for _, dir := range SplitLibraryPath(list) {
		if file := path.Join(dir, driver.LibCUDA); path.IsAbs(dir) {
			if _, err := h.ExamineCUDA(file, m); err == nil || errors.As(err, new(untrusted)) {
				return file
			}
		}
	}
	return ""
}

// windows matches the host's libraries that the driver's graphics libraries open by name: X's and Wayland's for
// windows, and libglvnd's EGL, without which there is no Vulkan where there is no display.
var windows = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^lib(EGL|X11-xcb|xcb-[a-z0-9]+|drm|wayland-(client|server))\.so\.[0-9]+$`)
})

// GLVNDEGL is libglvnd's EGL, which opens the driver's, libEGL_nvidia.so.0, by name.
const GLVNDEGL = "libEGL.so.1"

// linkNames returns the names that programs, linkers and other libraries know a library by.
func (h *Host) linkNames(lib Library, row driver.Library) []string {
	all := []string{lib.Soname, path.Base(lib.File), path.Base(lib.Path)}
	if !strings.Contains(row.Name, "*") && row.Soname != "" {
		all = append(all, row.Name) // for -lcuda at run time, as Triton links
	}
	var names []string
	for _, name := range all {
		if row.Match(name) {
			names = addOnce(names, name)
		}
	}
	return names
}

// IsCompat reports whether a directory is a CUDA compat package's.
func (h *Host) IsCompat(dir string) bool {
	return driver.CompatDirs{}.Contains(dir, func(name string) bool { return h.Root.Exists(path.Join(dir, name)) })
}

// libc matches the C library's own: each program brings them with its loader, and a second copy of any of them breaks
// it.
var libc = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^(ld-linux|ld-musl|ld64\.so|ld\.so\.1$|libnss_|lib(c|m|dl|pthread|rt|resolv|util|nsl|mvec|anl|BrokenLocale` +
			`|thread_db|c_malloc_debug|memusage|pcprofile)(\.so|$))`)
})

func withoutLibc(sonames []string) []string {
	return slices.DeleteFunc(append([]string{}, sonames...), libc().MatchString)
}
