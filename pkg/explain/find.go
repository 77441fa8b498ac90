package explain

import (
	"slices"

	"cuda-runpath/pkg/loader"
)

// Only leaves in the document one library alone, under whatever name it was loaded.
func (f *File) Only(o *loader.Object) {
	f.Libraries = slices.DeleteFunc(f.Libraries, func(l Library) bool {
		return l.Soname != o.Name || (l.Path != nil) != o.Found() || l.Path != nil && *l.Path != o.Path
	})
	f.Driver = slices.DeleteFunc(f.Driver, func(v Verdict) bool { return v.Soname != o.Name })
}

// Ways returns the objects on a way from the program to a target.
func (c *Case) Ways(target *loader.Object) map[*loader.Object]bool {
	on := map[*loader.Object]bool{target: true}
	for again := true; again; {
		again = false
		for _, o := range c.WithFailed() {
			if !on[o] && slices.ContainsFunc(c.Asks(o), func(u loader.Use) bool { return on[u.To] }) {
				on[o], again = true, true
			}
		}
	}
	return on
}
