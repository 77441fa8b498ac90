package resolution

import (
	"slices"
	"strings"
)

// Build returns the note for a file that needs some libraries and has a run path, as
// patchelf 0.19.1 writes it: an entry that only the loader can tell what it stands for, or
// of which searched is true, is searched; of any other the file is named that it holds. A
// library that no entry stands for has no place in the note. known says that what an entry holds is known now: it can be
// searched, and the loader looks in no other directory below it; holds, whether it has a file of a name that can be read.
func Build(needed, list []string, searched, known func(entry string) bool, holds func(entry, name string) bool) Note {
	places := map[string][]Place{}
	for _, entry := range list {
		search := !strings.HasPrefix(entry, "/") || strings.Contains(entry, "$") || searched(entry)
		search = search || !known(entry)
		for _, name := range needed {
			switch {
			case strings.Contains(name, "/"): // a path, for which nothing is searched
			case search:
				places[name] = append(places[name], Place("?"+entry))
			case holds(entry, name):
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
