package normal

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/runpath"
)

// directories answers what directories hold, remembering the answers: the files
// of one package ask the same questions again and again.
type directories struct {
	files *files.Files
	stubs sync.Map // directory -> map[string]string: soname to file
}

// within is not filepath.Join, which takes "/a/b/.." for "/a": b may be a symbolic link.
func within(dir, name string) string { return dir + "/" + name }

// has reports whether one of the directories holds a file of a name.
func (d *directories) has(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return d.files.At(within(dir, name)).Errno == 0 })
}

// holds reports whether one of the directories holds a library that the loader would
// take for a file of an ABI.
func (d *directories) holds(dirs []string, name string, abi files.ABI) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		of, ok := d.files.Open(within(dir, name)).ABI()
		return ok && abi.Accepts(of)
	})
}

// offers reports whether one of the directories holds a library of a name or soname:
// the stub of libcuda.so.1 is the file libcuda.so.
func (d *directories) offers(dirs []string, soname string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return d.Libraries(dir)[soname] != "" })
}

// Libraries returns the paths of the libraries in a directory, by soname and by file name.
func (d *directories) Libraries(dir string) map[string]string {
	if m, ok := d.stubs.Load(dir); ok {
		return m.(map[string]string)
	}
	found := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(d.files.Names(dir))) { // one that cannot be read offers nothing
		path := within(dir, name)
		if !strings.Contains(name, ".so") {
			continue
		}
		soname, ok := d.Soname(path)
		if !ok {
			continue
		}
		found[name] = path
		if _, ok := found[soname]; soname != "" && !ok {
			found[soname] = path
		}
	}
	d.stubs.Store(dir, found)
	return found
}

// Soname returns the soname of the file at a path, "" where it has none; ok is false where it is no ELF file.
func (d *directories) Soname(path string) (soname string, ok bool) {
	f := d.files.Open(path)
	return f.Soname, f.ELF != nil && f.Err == nil
}

// Entries answers what the directories hold that entries of one file's run path may stand for. It serves one goroutine.
type Entries struct {
	maps *Maps
	file File
	dir  string // of the file, which entries may be relative to; "": not asked yet
}

// Entries returns the answers for a file.
func (m *Maps) Entries(f File) *Entries { return &Entries{maps: m, file: f} }

// Directories returns the directories that an entry may stand for.
func (e *Entries) Directories(entry string) []string {
	if e.dir == "" && strings.Contains(entry, "$") {
		e.dir = "/nonexistent"
		if abs, err := filepath.Abs(e.file.Path); err == nil {
			e.dir = filepath.Dir(abs)
		}
	}
	return runpath.Directories(entry, e.dir)
}

// Hold reports whether an entry holds a library that the loader would take for the file.
func (e *Entries) Hold(entry, name string) bool {
	return e.maps.holds(e.Directories(entry), name, e.file.ABI)
}

// IsCompat reports whether an entry is a compat directory.
func (e *Entries) IsCompat(entry string) bool {
	return driver.CompatDirs{}.Contains(entry, func(name string) bool { return e.maps.has(e.Directories(entry), name) })
}
