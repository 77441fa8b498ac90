package explain

import (
	"slices"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader"
)

// Likely returns a filter of the names among an object's constants that are worth
// following: the driver's and the toolkit's, and of the file itself all that are
// whole strings. What a library such as libc.so.6 may open, and what the driver
// opens among its own libraries, is followed only where all is set.
func Likely(s *loader.Load, all bool) func(*loader.Object, loader.Literal) bool {
	return func(o *loader.Object, l loader.Literal) bool {
		if all || o == s.Main {
			return l.Exact || l.Driver
		}
		return l.Driver && !driver.Provides(o.Name)
	}
}

// Find returns the object that a name leads to. Where nothing asks for it, it is opened
// by the object that has the name in a note or among its string literals, else by the program.
func Find(s *loader.Load, name string) *loader.Object {
	for _, o := range s.Objects {
		for _, u := range o.Uses {
			if u.Name == name || u.To.File != nil && u.To.File.Soname == name {
				return u.To
			}
		}
	}
	for _, o := range s.Objects {
		if o.File == nil || !o.Found() {
			continue
		}
		for _, note := range o.File.Notes() {
			if slices.Contains(note.Sonames, name) {
				return s.Dlopen(name, o, loader.DlopenNote, note.Feature)
			}
		}
		if slices.ContainsFunc(o.File.Literals(), func(l loader.Literal) bool { return l.Name == name && l.Exact }) {
			return s.Dlopen(name, o, loader.DlopenString, "")
		}
	}
	return s.Dlopen(name, s.Main, loader.DlopenAsked, "")
}

// Only leaves out of the document all but one library, under whatever name it was loaded.
func (f *File) Only(o *loader.Object) {
	f.Libraries = slices.DeleteFunc(f.Libraries, func(l Library) bool {
		return l.Soname != o.Name || (l.Path != nil) != o.Found() || l.Path != nil && *l.Path != o.Path
	})
	f.Driver = slices.DeleteFunc(f.Driver, func(v Verdict) bool { return v.Soname != o.Name })
}

// Ways returns the objects on a way from the program to a target.
func Ways(s *loader.Load, target *loader.Object) map[*loader.Object]bool {
	on := map[*loader.Object]bool{target: true}
	for again := true; again; {
		again = false
		for _, o := range s.Objects {
			if on[o] {
				continue
			}
			for _, u := range o.Uses {
				if on[u.To] {
					on[o], again = true, true
					break
				}
			}
		}
	}
	return on
}
