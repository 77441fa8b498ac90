package resolution

import (
	"slices"
	"strings"
)

// Directories answers what [Build] asks of this machine's file system: see package files.
type Directories interface {
	Plain(dir string) bool
	Readable(dir, name string) bool
}

// Build returns the note for a file that needs some libraries and has a run path, as
// patchelf 0.19.1 writes it: an entry that only the loader can tell what it stands for, or
// of which searched is true, is searched; of any other the file is named that it holds. A
// library that no entry stands for has no place in the note.
func Build(needed, list []string, searched func(entry string) bool, in Directories) Note {
	places := map[string][]Place{}
	for _, entry := range list {
		search := !strings.HasPrefix(entry, "/") || strings.Contains(entry, "$") || searched(entry)
		search = search || !in.Plain(entry)
		for _, name := range needed {
			switch {
			case strings.Contains(name, "/"): // a path, for which nothing is searched
			case search:
				places[name] = append(places[name], Place("?"+entry))
			case in.Readable(entry, name):
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
