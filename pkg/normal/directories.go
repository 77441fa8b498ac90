package normal

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/plainfile"
)

// directories answers what directories hold, remembering the answers: the files
// of one package ask the same questions again and again.
type directories struct {
	heads sync.Map // path -> elfHead
	stubs sync.Map // directory -> map[string]string: soname to file
}

type elfHead struct {
	exists bool
	elf    bool
	abi    loader.ABI
}

func (d *directories) head(path string) elfHead {
	if h, ok := d.heads.Load(path); ok {
		return h.(elfHead)
	}
	h := readELFHead(path)
	d.heads.Store(path, h)
	return h
}

// within is not filepath.Join, which takes "/a/b/.." for "/a": b may be a symbolic link.
func within(dir, name string) string { return dir + "/" + name }

func readELFHead(path string) elfHead {
	f, _, err := plainfile.Open(path)
	if err != nil {
		_, err := os.Stat(path)
		return elfHead{exists: err == nil}
	}
	defer f.Close()
	b := make([]byte, 64)
	n, _ := io.ReadFull(f, b) // a short file has a short header
	h, isELF, whole := elfimage.DecodeHeader(b[:n])
	return elfHead{true, isELF && whole, loader.ABI{Class: h.Class, Data: h.Data, Machine: h.Machine, Flags: h.Flags}}
}

// has reports whether one of the directories holds a file of a name.
func (d *directories) has(dirs []string, name string) bool {
	for _, dir := range dirs {
		if d.head(within(dir, name)).exists {
			return true
		}
	}
	return false
}

// holds reports whether one of the directories holds a library that the loader would
// take for a file of an ABI.
func (d *directories) holds(dirs []string, name string, abi loader.ABI) bool {
	for _, dir := range dirs {
		if h := d.head(within(dir, name)); h.elf && abi.Accepts(h.abi) {
			return true
		}
	}
	return false
}

// offers reports whether one of the directories holds a library of a name or soname:
// the stub of libcuda.so.1 is the file libcuda.so.
func (d *directories) offers(dirs []string, soname string) bool {
	for _, dir := range dirs {
		if _, ok := d.sonames(dir)[soname]; ok {
			return true
		}
	}
	return false
}

// sonames returns the libraries in a directory, by soname and by file name.
func (d *directories) sonames(dir string) map[string]string {
	if m, ok := d.stubs.Load(dir); ok {
		return m.(map[string]string)
	}
	found := map[string]string{}
	entries, _ := os.ReadDir(dir) // one that cannot be read offers nothing
	for _, entry := range entries {
		if !strings.Contains(entry.Name(), ".so") {
			continue
		}
		path := within(dir, entry.Name())
		soname, err := sonameOf(path)
		if err != nil {
			continue
		}
		found[entry.Name()] = path
		if _, ok := found[soname]; soname != "" && !ok {
			found[soname] = path
		}
	}
	d.stubs.Store(dir, found)
	return found
}

func sonameOf(path string) (string, error) {
	f, st, err := plainfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	im, err := elfimage.Parse(f, st.Size())
	if err != nil {
		return "", err
	}
	return im.Soname()
}

// origin is the directory of one file, which its entries may be relative to.
type origin struct {
	path string
	dir  string
}

func newOrigin(path string) *origin { return &origin{path: path} }

// expand returns the directories that an entry may stand for.
func (o *origin) expand(entry string) []string {
	if o.dir == "" && strings.Contains(entry, "$") {
		o.dir = "/nonexistent"
		if abs, err := filepath.Abs(o.path); err == nil {
			o.dir = filepath.Dir(abs)
		}
	}
	return loader.Directories(entry, o.dir)
}
