package resolution

import (
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Files answers what Build asks of this machine's file system, and remembers the answers. It
// serves several goroutines. The zero value is ready for use.
type Files struct {
	directories sync.Map // entry → func() *directory
}

// directory is a directory that an entry names.
type directory struct {
	// fixed: what the entry holds is known now. It can be searched, and the loader looks in no
	// other one below it.
	fixed    bool
	names    map[string]bool // nil where it cannot be read
	readable sync.Map        // name → bool, of the names that were asked for
}

func (f *Files) directory(entry string) *directory {
	v, ok := f.directories.Load(entry)
	if !ok {
		v, _ = f.directories.LoadOrStore(entry, sync.OnceValue(func() *directory { return newDirectory(entry) }))
	}
	return v.(func() *directory)()
}

func newDirectory(entry string) *directory {
	var st unix.Stat_t
	d := &directory{fixed: unix.Access(entry+"/glibc-hwcaps", unix.F_OK) != nil &&
		unix.Stat(entry, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && unix.Access(entry, unix.X_OK) == nil}
	if !d.fixed {
		return d
	}
	dir, err := os.OpenFile(entry, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return d
	}
	defer dir.Close()
	if names, err := dir.Readdirnames(-1); err == nil {
		d.names = make(map[string]bool, len(names))
		for _, name := range names {
			d.names[name] = true
		}
	}
	return d
}

// holds reports whether the directory that an entry names has a file of a name that can be read.
func (d *directory) holds(entry, name string) bool {
	if d.names != nil && !d.names[name] && name != "" && name != "." && name != ".." {
		return false // most names are in few of the directories
	}
	can, known := d.readable.Load(name)
	if !known {
		can = unix.Access(entry+"/"+name, unix.R_OK) == nil
		d.readable.Store(name, can)
	}
	return can.(bool)
}

// Build returns the note for a file that needs some libraries and has a run path, as
// patchelf 0.19.1 writes it: an entry that only the loader can tell what it stands for, or
// of which searched is true, is searched; of any other the file is named that it holds. A
// library that no entry stands for has no place in the note.
func (f *Files) Build(needed, list []string, searched func(entry string) bool) Note {
	places := map[string][]Place{}
	for _, entry := range list {
		search := !strings.HasPrefix(entry, "/") || strings.Contains(entry, "$") || searched(entry)
		var dir *directory
		if !search {
			dir = f.directory(entry)
			search = !dir.fixed
		}
		for _, name := range needed {
			switch {
			case strings.Contains(name, "/"): // a path, for which nothing is searched
			case search:
				places[name] = append(places[name], Place("?"+entry))
			case dir.holds(entry, name):
				places[name] = append(places[name], Place("="+entry+"/"+name))
			}
		}
	}
	var n Note
	for name, at := range places {
		n = append(n, Entry{name, at})
	}
	slices.SortFunc(n, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return n
}
