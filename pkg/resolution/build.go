package resolution

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Files answers what Build asks of this machine's file system, and remembers the answers. It
// serves several goroutines. The zero value is ready for use.
type Files struct {
	directories sync.Map // entry → bool: it can be searched, and has no directory glibc-hwcaps
	readable    sync.Map // path → bool
}

// fixed reports whether what an entry holds is known now: it is a directory that can be
// searched, and the loader looks in no other one below it.
func (f *Files) fixed(entry string) bool {
	return remembered(&f.directories, entry, func() bool {
		var st unix.Stat_t
		return unix.Access(entry+"/glibc-hwcaps", unix.F_OK) != nil &&
			unix.Stat(entry, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && unix.Access(entry, unix.X_OK) == nil
	})
}

func (f *Files) has(path string) bool {
	return remembered(&f.readable, path, func() bool { return unix.Access(path, unix.R_OK) == nil })
}

func remembered(m *sync.Map, key string, ask func() bool) bool {
	v, ok := m.Load(key)
	if !ok {
		v, _ = m.LoadOrStore(key, ask())
	}
	return v.(bool)
}

// Build returns the note for a file that needs some libraries and has a run path, as
// patchelf 0.19.1 writes it: an entry that only the loader can tell what it stands for, or
// of which searched is true, is searched; of any other the file is named that it holds. A
// library that no entry stands for has no place in the note.
func (f *Files) Build(needed, list []string, searched func(entry string) bool) Note {
	places := map[string][]Place{}
	for _, entry := range list {
		search := !strings.HasPrefix(entry, "/") || strings.Contains(entry, "$") || searched(entry) || !f.fixed(entry)
		for _, name := range needed {
			switch file := entry + "/" + name; {
			case strings.Contains(name, "/"): // a path, for which nothing is searched
			case search:
				places[name] = append(places[name], Place("?"+entry))
			case f.has(file):
				places[name] = append(places[name], Place("="+file))
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
