package runpath

import (
	"slices"
	"strings"
	"sync"
)

// List is a run path: directories in the order in which the loader searches them,
// as text. An entry "" means the current working directory.
type List []string

// Parse splits the value of a DT_RUNPATH or DT_RPATH at its colons.
//
// An empty value has no entries: glibc ignores it (elf/dl-load.c, decompose_rpath).
// Elsewhere nothing between two colons, or before the first or after the last one,
// is an empty entry, which glibc takes for "./" (fillin_rpath).
func Parse(s string) List {
	if s == "" {
		return nil
	}
	return strings.Split(s, ":")
}

// String joins the entries with colons. Parse(s).String() is s.
// A list of one empty entry has no spelling of its own; it is written as ":",
// which the loader searches no differently.
func (l List) String() string {
	if len(l) == 1 && l[0] == "" {
		return ":"
	}
	return strings.Join(l, ":")
}

// Empties counts the empty entries.
func (l List) Empties() int {
	n := 0
	for _, e := range l {
		if e == "" {
			n++
		}
	}
	return n
}

var braces = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer("${ORIGIN}", "$ORIGIN", "${LIB}", "$LIB", "${PLATFORM}", "$PLATFORM")
})

// Key returns one spelling for all spellings of a directory that differ only in repeated or trailing slashes, "."
// components, or the braces of a dynamic string token. It leaves ".." alone, because "a/b/.." is not "a" if b is a
// symbolic link. The key of an empty entry is "".
func Key(entry string) string {
	if strings.Contains(entry, "${") {
		entry = braces().Replace(entry)
	}
	if !strings.HasSuffix(entry, "/") && !strings.HasSuffix(entry, "/.") && !strings.HasPrefix(entry, "./") &&
		!strings.Contains(entry, "//") && !strings.Contains(entry, "/./") {
		return entry
	}
	return CleanEntry(entry)
}

// Index returns the place of the first entry that names a directory; -1 if none does.
func (l List) Index(dir string) int {
	key := Key(dir)
	return slices.IndexFunc(l, func(e string) bool { return Key(e) == key })
}

// Has reports whether an entry names a directory.
func (l List) Has(dir string) bool { return l.Index(dir) >= 0 }

// Without returns the list without the entries that name one of the directories.
// The list is not modified.
func (l List) Without(dirs ...string) List {
	return slices.DeleteFunc(slices.Clone(l), func(e string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return Key(dir) == Key(e) })
	})
}

// Replace returns the list with the entries by in place of each entry that names dir. Each entry of by is there once
// afterwards, in the first of its places. The list is not modified.
func (l List) Replace(dir string, by ...string) List {
	var out List
	for _, e := range l {
		put := []string{e}
		if Key(e) == Key(dir) {
			put = by
		}
		for _, e := range put {
			own := slices.ContainsFunc(by, func(b string) bool { return Key(b) == Key(e) })
			if !own || len(out.Without(e)) == len(out) {
				out = append(out, e)
			}
		}
	}
	return out
}

// Duplicates returns the entries that name the directory of an earlier entry, in their order and spelling. Empty
// entries are not counted.
func (l List) Duplicates() []string {
	var dup []string
	seen := make(map[string]bool, len(l))
	for _, e := range l {
		k := Key(e)
		if e != "" && seen[k] {
			dup = append(dup, e)
		}
		seen[k] = true
	}
	return dup
}

// Unique returns the list without its Duplicates.
func (l List) Unique() List {
	var out List
	seen := make(map[string]bool, len(l))
	for _, e := range l {
		if k := Key(e); e == "" || !seen[k] {
			out = append(out, e)
			seen[k] = true
		}
	}
	return out
}
