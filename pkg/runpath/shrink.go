package runpath

import (
	"slices"
	"strings"
)

// Use is what [Shrink] needs to know of the file.
type Use struct {
	// Names are the libraries that the file loads or may open, in that order.
	Names []string
	// Holds reports whether a directory holds a library of a name that the loader
	// would take for the file. It is given the entry's Key.
	Holds func(entry, name string) bool
	// Keep reports whether an entry stays even if it holds nothing; nil: none does.
	Keep func(entry string) bool
	// Temporary reports whether a directory will be gone at run time. Its entry stays only for a name that no other
	// entry holds. Nil: none.
	Temporary func(entry string) bool
}

// Shrink returns the entries of a run path that the file uses, and those that were dropped. An absolute entry stays
// if it is the first to hold a name. Entries with a token ($ORIGIN), relative and empty ones stay, because what they
// hold depends on more than the file; patchelf's --shrink-rpath has these rules, too. Those that Keep reports stay as
// well. Shrink neither moves nor adds entries, so it commutes with the maps of [Settings] whose entries Keep reports.
func Shrink(l List, u Use) (kept List, dropped []string) {
	uses := make([]bool, len(l))
	for _, name := range u.Names {
		best := -1
		for i, e := range l {
			if !strings.HasPrefix(e, "/") || strings.Contains(e, "$") || !u.Holds(Key(e), name) {
				continue
			}
			if u.Temporary == nil || !u.Temporary(Key(e)) {
				best = i
				break
			}
			if best < 0 {
				best = i
			}
		}
		if best >= 0 {
			uses[best] = true
		}
	}
	kept = make(List, 0, len(l))
	for i, e := range l {
		stays := uses[i] || !strings.HasPrefix(e, "/") || strings.Contains(e, "$") || u.Keep != nil && u.Keep(e)
		again := strings.HasPrefix(e, "/") && slices.ContainsFunc(l[:i], func(f string) bool { return Key(f) == Key(e) })
		if stays && !again {
			kept = append(kept, e)
		} else {
			dropped = append(dropped, e)
		}
	}
	return kept, dropped
}

// CleanEntry spells an entry as Python's pathlib spells a path: without "."
// components and doubled or trailing slashes. ".." and tokens stay as they are.
func CleanEntry(entry string) string {
	var parts []string
	for part := range strings.SplitSeq(entry, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	s := strings.Join(parts, "/")
	switch {
	case strings.HasPrefix(entry, "/"):
		return "/" + s
	case s == "":
		return "."
	}
	return s
}
